// ---- Markup: all HTML of the page is made and shown here -----------------------------------------------

const kEntities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;", "'": "&#39;" };

class Html {
  constructor(text) { this.text = text; }
  toString() { return this.text; }
}

function escaped(value) {
  if (Array.isArray(value)) return value.map(escaped).join("");
  return value instanceof Html ? value.text : String(value).replace(/[&<>"']/g, (letter) => kEntities[letter]);
}

// html`<b>${name}</b>`: escapes what stands in ${}, except markup that it made itself. A list is joined.
const html = (parts, ...values) => new Html(String.raw({ raw: parts }, ...values.map(escaped)));
const each = (list, part) => html`${list.map(part)}`;

// The only place that turns text into elements.
function show(place, markup) {
  if (!(markup instanceof Html)) throw new TypeError("not made by html`...`");
  place.innerHTML = markup;
}
