// What can be read on a node that has colours of its own, whatever the theme.

const PALE = "#f1f3f4"
const DARK = "#1c2126"

// How bright a colour is by WCAG 2.1, 0 to 1; NaN of one that is not written as #rgb or #rrggbb.
function luminance(colour: string): number {
  const short = /^#([\da-f])([\da-f])([\da-f])$/i.exec(colour)
  const long = /^#([\da-f]{2})([\da-f]{2})([\da-f]{2})/i.exec(colour)
  const parts = short ? short.slice(1).map((digit) => digit + digit) : long?.slice(1)
  if (!parts) return NaN
  const [r, g, b] = parts.map((part) => {
    const value = parseInt(part, 16) / 255
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

// Of one colour on another, 1 to 21; NaN where one of them is not known.
export function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y)
  return (high + 0.05) / (low + 0.05)
}

// The text for such a background: pale or dark, whichever has more contrast.
export function inkOn(colour: string | undefined, fallback: string): string {
  const background = colour ?? ""
  if (Number.isNaN(luminance(background))) return fallback
  return contrast(background, PALE) >= contrast(background, DARK) ? PALE : DARK
}
