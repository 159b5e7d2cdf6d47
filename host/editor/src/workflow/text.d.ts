// Files that become a part of the page as the text they are.
declare module "*.def" {
  const text: string
  export default text
}
