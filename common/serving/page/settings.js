// SPDX-License-Identifier: Apache-2.0
// The settings of requests. A field that is empty is left out of them: then the model's own default holds.

const SAMPLING = ['temperature', 'top_p', 'top_k', 'min_p', 'max_completion_tokens'];
const fields = at('fields');

function readSettings() {
  const kept = stored(forEver, SETTINGS) || {};
  for (const field of fields.elements) if (typeof kept[field.name] === 'string') field.value = kept[field.name];
  checkTools();
}

function keepSettings() {
  checkTools();
  const all = [...fields.elements].filter(field => field.name).map(field => [field.name, field.value]);
  store(forEver, SETTINGS, Object.fromEntries(all));
}

// The tools that the settings list; null: the text is no such list.
function toolsOf(text) {
  if (!text.trim()) return [];
  try {
    const tools = JSON.parse(text);
    return Array.isArray(tools) ? tools : null;
  } catch { return null; }
}

function checkTools() {
  const why = toolsOf(fields.elements.tools.value)
    ? '' : 'Tools is no JSON list. Write [{"type": "function", "function": {"name": ..}}], or leave it empty.';
  fields.elements.tools.setCustomValidity(why);
  at('tools-error').textContent = why;
}

// Whether all settings can be sent; the first that cannot is shown.
function settingsHold() {
  if (fields.checkValidity()) return true;
  at('settings').showModal();
  fields.reportValidity();
  return false;
}

// The fields of a request that the settings determine.
function requestSettings() {
  const values = fields.elements, request = {};
  for (const name of SAMPLING) if (values[name].value !== '') request[name] = Number(values[name].value);
  const tools = toolsOf(values.tools.value);
  if (tools && tools.length) Object.assign(request, {tools, tool_choice: values.tool_choice.value});
  return request;
}

const systemMessages = () => {
  const text = fields.elements.system.value.trim();
  return text ? [{role: 'system', content: text}] : [];
};

// Stays as it was typed: it may be larger than numbers of this language are exact.
const wantedSeed = () => fields.elements.seed.value.trim();

fields.addEventListener('input', keepSettings);
fields.addEventListener('submit', event => event.preventDefault());
at('empty').addEventListener('click', () => {
  fields.reset();
  keepSettings();
});
