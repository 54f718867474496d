// ---- The form of a race --------------------------------------------------------------------------------

// Fields of each model: [option, label]. What is not among them is in the text field “more options”.
const kModelFields = [["placement", "norm placement"], ["norm", "norm"], ["layers", "layers"], ["channels", "channels"],
  ["lr", "learning rate"], ["warmup", "warm-up steps"], ["optimizer", "optimizer"], ["init", "initialization"]];
const kSharedFields = [["steps", "steps"], ["batch", "batch"], ["context", "context"], ["seed", "seed"]];
const kMost = 4;
const kTextHint = "Paste a text of 10,000 characters or more. Empty: stories that the program tells.";

let optionTable = [];  // of the engine
const optionOf = (name) => optionTable.find((option) => option.name === name);

const words = (settings) => Object.entries(settings).map(([name, value]) => (value === true ? `--${name}`
  : value === false ? `--no-${name}` : `--${name} ${value}`)).join(" ");

// "--beta2 0.98 --no-residual-gain" as settings; throws if it is not of this form.
function settingsOf(text) {
  const settings = {};
  const list = text.trim().split(/\s+/).filter(Boolean);
  for (let i = 0; i < list.length; ++i) {
    if (!/^--[a-z]/.test(list[i])) throw new Error(`“${list[i]}” is no option: write --name value`);
    const name = list[i].slice(2);
    if (i + 1 < list.length && !list[i + 1].startsWith("--")) settings[name] = list[++i];
    else settings[name.replace(/^no-/, "")] = !name.startsWith("no-");
  }
  return settings;
}

function field([name, label], id, value, describe) {
  const option = optionOf(name);
  const choices = option?.choices?.length ? option.choices : null;
  const attributes = html`id="${id}" name="${id}" aria-label="${label}${describe}"`;
  const given = String(value ?? ""), byDefault = option?.default ?? "";
  if (!choices) return html`<input ${attributes} value="${given}" placeholder="${byDefault}"
    inputmode="${name === "lr" ? "decimal" : "numeric"}">`;
  const line = (choice) => html`<option value="${choice}" ${choice === given ? "selected" : ""}>${
    choice || `default${byDefault ? ` (${byDefault})` : ""}`}</option>`;
  return html`<select ${attributes}>${each(["", ...choices], line)}</select>`;
}

function drawForm(race) {
  const columns = race.models.map((model) => ({ ...race.common, ...model.settings }));
  const known = [...kModelFields, ...kSharedFields].map(([name]) => name);
  const others = (settings) => Object.entries(settings).filter(([name]) => !known.includes(name));
  const row = (label, cells) =>
    html`<tr><th scope="row">${label}</th>${each(cells, (cell) => html`<td>${cell}</td>`)}</tr>`;
  const rows = kModelFields.map(([name, label]) => row(label, columns.map((settings, i) =>
    field([name, label], `${name}-${i}`, settings[name], ` of model ${i + 1}`))));
  const remove = (i) => (columns.length < 3 ? ""
    : html`<button type="button" class="remove" data-remove="${i}" aria-label="Remove model ${i + 1}">×</button>`);
  const heads = each(columns, (_, i) => html`<th scope="col">${swatch(i)} model ${i + 1} ${remove(i)}</th>`);
  const more = columns.map((settings, i) => html`<textarea id="more-${i}" rows="3" spellcheck="false"
    aria-label="more options of model ${i + 1}">${words(Object.fromEntries(others(settings)))}</textarea>`);
  const shared = each(kSharedFields, ([name, label]) =>
    html`<label>${label} ${field([name, label], `shared-${name}`, race.common[name], "")}</label>`);
  show($("form"), html`
    <div class="scroll"><table class="models"><thead><tr><th></th>${heads}</tr></thead>
    <tbody>${rows}${row("more options", more)}</tbody></table></div>
    <div class="tools">${shared}</div>
    <details ${race.text === null ? "" : "open"}><summary>Train on your own text</summary>
      <textarea id="text" rows="6" aria-label="Text to train on" placeholder="${kTextHint}">${
  race.text ?? ""}</textarea>
      <p class="note">The text stays in this page. A link does not contain it.</p></details>
    <div class="tools"><button type="submit" class="primary">Start this race</button>
    ${columns.length < kMost ? html`<button type="button" id="add">Add a model</button>` : ""}</div>`);
}

// The race that the form describes, without names and claim.
function readForm(race) {
  const value = (id) => $(id).value.trim();
  const pick = (fields, id) => Object.fromEntries(fields.map(([name]) => [name, value(id(name))])
    .filter(([, given]) => given !== ""));
  const models = race.models.map((_, i) => ({ settings: { ...settingsOf(value(`more-${i}`)),
    ...pick(kModelFields, (name) => `${name}-${i}`) } }));
  const text = $("text").value;
  return named({ common: pick(kSharedFields, (name) => `shared-${name}`), models, text: text.trim() ? text : null });
}

// A model's name: its settings that differ from those of another model.
function named(race) {
  const names = [...new Set(race.models.flatMap((model) => Object.keys(model.settings)))];
  const given = (name) => race.models.map((model) => String(model.settings[name] ?? ""));
  const differ = names.filter((name) => new Set(given(name)).size > 1);
  const part = (settings) => (name) => (!["placement", "norm", "init", "optimizer"].includes(name)
    ? `${name} ${settings[name] ?? "default"}` : settings[name] ?? `default ${name}`);
  const models = race.models.map((model, i) => ({ ...model,
    name: differ.map(part(model.settings)).join(", ") || `${model.settings.placement ?? "model"} ${i + 1}` }));
  return { ...race, models };
}
