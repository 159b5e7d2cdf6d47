// A node as files of the editor have it.
export const node = (id: number, type: string, more: any = {}) => ({
  id,
  type,
  mode: 0,
  order: id,
  inputs: [],
  outputs: [],
  widgets_values: [],
  ...more,
})
