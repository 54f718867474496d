// ---- The form of a race --------------------------------------------------------------------------------

// Fields of each model: [option, label]. What is not among them is in the text field “more options”.
const kModelFields = [["placement", "norm placement"], ["norm", "norm"], ["layers", "layers"], ["channels", "channels"],
  ["lr", "learning rate"], ["warmup", "warm-up steps"], ["optimizer", "optimizer"], ["init", "initialization"]];
const kSharedFields = [["steps", "steps"], ["batch", "batch"], ["context", "context"], ["seed", "seed"]];
const kMost = 4;

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
  const attributes = `id="${id}" name="${id}" aria-label="${label}${describe}"`;
  if (!choices) return `<input ${attributes} value="${escape(String(value ?? ""))}" placeholder="${escape(option?.default ?? "")}"
    inputmode="${name === "lr" ? "decimal" : "numeric"}">`;
  const all = ["", ...choices].map((choice) => `<option value="${choice}" ${choice === String(value ?? "") ? "selected" : ""}>${
    choice || `default${option.default ? ` (${option.default})` : ""}`}</option>`);
  return `<select ${attributes}>${all.join("")}</select>`;
}

function drawForm(race) {
  const columns = race.models.map((model) => ({ ...race.common, ...model.settings }));
  const known = [...kModelFields, ...kSharedFields].map(([name]) => name);
  const rest = columns.map((settings) => words(Object.fromEntries(Object.entries(settings).filter(([name]) => !known.includes(name)))));
  const row = (label, cells) => `<tr><th scope="row">${label}</th>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;
  const rows = kModelFields.map(([name, label]) => row(label, columns.map((settings, i) =>
    field([name, label], `${name}-${i}`, settings[name], ` of model ${i + 1}`))));
  document.getElementById("form").innerHTML = `
    <div class="scroll"><table class="models"><thead><tr><th></th>${columns.map((_, i) => `<th scope="col">${swatch(i)} model ${i + 1}
      ${columns.length > 2 ? `<button type="button" class="remove" data-remove="${i}" aria-label="Remove model ${i + 1}">×</button>` : ""}
      </th>`).join("")}</tr></thead><tbody>${rows.join("")}${row("more options", rest.map((text, i) =>
    `<textarea id="more-${i}" rows="3" aria-label="more options of model ${i + 1}" spellcheck="false">${escape(text)}</textarea>`))}
    </tbody></table></div>
    <div class="tools">${kSharedFields.map(([name, label]) => `<label>${label} ${field([name, label], `shared-${name}`, race.common[name], "")}</label>`).join("")}
    </div>
    <details ${race.text === null ? "" : "open"}><summary>Train on your own text</summary>
      <textarea id="text" rows="6" aria-label="Text to train on" placeholder="Paste a text of 10,000 characters or more. Empty: stories that the program tells.">${escape(race.text ?? "")}</textarea>
      <p class="note">The text stays in this page. A link does not contain it.</p></details>
    <div class="tools"><button type="submit" class="primary">Start this race</button>
    ${columns.length < kMost ? "<button type=\"button\" id=\"add\">Add a model</button>" : ""}</div>`;
}

// The race that the form describes, without names and claim.
function readForm(race) {
  const value = (id) => document.getElementById(id).value.trim();
  const pick = (fields, id) => Object.fromEntries(fields.map(([name]) => [name, value(id(name))]).filter(([, v]) => v !== ""));
  const models = race.models.map((_, i) => ({ settings: { ...settingsOf(value(`more-${i}`)), ...pick(kModelFields, (name) => `${name}-${i}`) } }));
  const text = document.getElementById("text").value;
  return named({ common: pick(kSharedFields, (name) => `shared-${name}`), models, text: text.trim() ? text : null });
}

// A model's name: its settings that differ from those of another model.
function named(race) {
  const names = [...new Set(race.models.flatMap((model) => Object.keys(model.settings)))];
  const differ = names.filter((name) => new Set(race.models.map((model) => String(model.settings[name] ?? ""))).size > 1);
  const part = (settings) => (name) => (["placement", "norm", "init", "optimizer"].includes(name) ? settings[name] ?? `default ${name}`
    : `${name} ${settings[name] ?? "default"}`);
  const models = race.models.map((model, i) => ({ ...model,
    name: differ.map(part(model.settings)).join(", ") || `${model.settings.placement ?? "model"} ${i + 1}` }));
  return { ...race, models };
}
