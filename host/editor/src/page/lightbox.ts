// One picture, as large as the window allows.
import type { FileRef } from "../server/api"
import { h, iconButton } from "./dom"

const nameOf = (url: string) =>
  new URL(url, location.href).searchParams.get("filename") ?? "preview.png"

export function savePicture(url: string) {
  h("a", { href: url, download: nameOf(url) }).click()
}

// Pictures whose addresses are all that is known, as a node has them.
export function openPictures(urls: string[], start = 0) {
  const files = urls.map((url) => ({ filename: nameOf(url), subfolder: "", type: "output" }))
  showPicture(files, urls, start)
}

export function showPicture(files: FileRef[], urls: string[], start = 0) {
  let at = start
  const picture = h("img", { alt: "" })
  const name = h("span", { class: "lightbox-name" })
  const link = h("a", { class: "button quiet" }, "Download")
  picture.addEventListener("load", () => {
    picture.classList.toggle("crisp", picture.naturalWidth < 300)
    name.textContent = `${files[at].filename} · ${picture.naturalWidth} × ${picture.naturalHeight}${files.length > 1 ? ` · ${at + 1} of ${files.length}` : ""}`
  })
  const show = (index: number) => {
    at = (index + files.length) % files.length
    picture.src = urls[at]
    picture.alt = files[at].filename
    link.href = urls[at]
    link.download = files[at].filename
  }
  const dialog = h(
    "dialog",
    { class: "lightbox", "aria-label": "Picture" },
    h(
      "header",
      {},
      name,
      link,
      iconButton("close", "Close", () => dialog.close()),
    ),
    picture,
  )
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") show(at + 1)
    if (event.key === "ArrowLeft") show(at - 1)
  })
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target === picture) dialog.close()
  })
  dialog.addEventListener("close", () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
  show(start)
}
