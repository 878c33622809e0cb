// Users, their tokens and their rights.

import { $, ask, button, cell, day, element, linked, mono, plural, request, say, table, when } from "./page.js";

const STATUS = "access-status";
const RIGHTS = ["publish", "subscribe", "retain"];
const GROUPS = { everyone: "Everyone, whether logged in or not", anonymous: "Anonymous clients" };

/** The maximum number of rows; a search finds the others. */
const USERS_SHOWN = 50;

/** The token that was just created, until it is shown. */
let fresh;
/** All users, from the server's last answer. */
let known = { users: [], everyone: [], anonymous: [] };

const pathOf = (name) => "/admin/users/" + encodeURIComponent(name);
const labelled = (words, input) => element("label", {}, element("span", {}, words), input);

/** Changes a user, and reloads the view. */
async function change(method, path, body, words) {
  const { name } = document.activeElement.closest("#users details")?.dataset ?? {};
  const reply = await ask(STATUS, method, path, body, words);
  if (!reply) return reply;
  await loadUsers();
  // The focused element is created again: the focus returns to the same user, if it still exists.
  const row = [...$("users").children].find((row) => row.dataset.name === name);
  if (name) (row?.querySelector("summary") ?? $("content")).focus();
  return reply;
}

function ruleForm(name) {
  const filter = element("input", { required: "", placeholder: "home/%u/#", autocomplete: "off", spellcheck: "false" });
  const effect = element("select", {}, element("option", { value: "allow" }, "may"), element("option", { value: "deny" }, "may not"));
  const boxes = RIGHTS.map((right) => {
    const box = element("input", { type: "checkbox", value: right });
    box.checked = right !== "retain";
    return box;
  });
  const form = element("form", { class: "inline" }, labelled("Effect", effect),
    element("fieldset", {}, element("legend", { class: "unseen" }, "Access"), ...boxes.map((box) => element("label", { class: "check" }, box, box.value))),
    labelled("Topic filter", filter), element("button", { type: "submit" }, "Add rule"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const access = boxes.filter((box) => box.checked).map((box) => box.value);
    change("POST", pathOf(name) + "/rules", { effect: effect.value, access, filter: filter.value }, () => `The rule for ${name} is in force.`);
  });
  return form;
}

function rulesOf(name, rules) {
  const remove = (rule) => () => {
    const query = new URLSearchParams({ access: rule.access.join(","), filter: rule.filter });
    if (!confirm(`Remove the rule of ${name} for ${rule.filter}?`)) return Promise.resolve();
    return change("DELETE", `${pathOf(name)}/rules?${query}`, undefined, () => "The rule is removed.");
  };
  const rows = rules.map((rule) => [
    cell(rule.effect === "allow" ? "may" : element("span", { class: "warn" }, "may not")), cell(rule.access.join(", ")), cell(mono(rule.filter)),
    cell(button("Remove", remove(rule), { "aria-label": `Remove the rule for ${rule.filter}` }), "number")]);
  return element("div", {},
    rows.length ? table(`Rules of ${name}`, [["Effect"], ["Access"], ["Topics"], ["", "number"]], rows) : element("p", { class: "empty" }, "No rule of its own."),
    ruleForm(name));
}

function tokensOf(user) {
  const label = element("input", { placeholder: "doorbell", autocomplete: "off" });
  const expires = element("select", {}, ...[["", "never"], ["1d", "in a day"], ["30d", "in 30 days"], ["365d", "in a year"]]
    .map(([value, words]) => element("option", { value }, words)));
  const secret = element("p", { class: "secret", role: "status" });
  const form = element("form", { class: "inline" }, labelled("Purpose", label), labelled("Expires", expires), element("button", { type: "submit" }, "Create token"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const made = await ask(STATUS, "POST", pathOf(user.name) + "/tokens", { label: label.value, expires: expires.value || null }, () => `A token for ${user.name} is created.`);
    if (!made) return;
    fresh = { name: user.name, token: made.token };
    await loadUsers();
    document.querySelector(".secret code")?.focus();
  });
  if (fresh?.name === user.name) {
    secret.append("Copy the token now, it is shown only once: ", element("code", { tabindex: "0" }, fresh.token));
    fresh = undefined;
  }
  const remove = (token) => async () => confirm(`Revoke the token ${token.label || token.id}? Clients that use it can no longer log in.`) && change("DELETE", "/admin/tokens/" + encodeURIComponent(token.id), undefined, () => "The token is revoked.");
  const rows = user.tokens.map((token) => [cell(token.label || mono(token.id)), cell(day(token.created * 1000)), cell(token.expires ? day(token.expires * 1000) : "never"),
    cell(token.scope ? "restricted" : "all rights of its user"), cell(button("Revoke", remove(token), { "aria-label": `Revoke ${token.label || token.id}` }), "number")]);
  return element("div", {},
    rows.length ? table(`Tokens of ${user.name}`, [["Token"], ["Made"], ["Expires"], ["May"], ["", "number"]], rows) : element("p", { class: "empty" }, "No token."),
    secret, form);
}

function passwordForm(user) {
  const password = element("input", { type: "password", required: "", autocomplete: "new-password" });
  const form = element("form", { class: "inline" }, labelled("New password", password), element("button", { type: "submit" }, "Set password"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change("PATCH", pathOf(user.name), { password: password.value }, () => `The password of ${user.name} is changed; its connections ended.`);
  });
  return form;
}

function accountOf(user) {
  const tell = (words) => () => `${user.name} ${words}.`;
  return element("div", { class: "actions" },
    button(user.disabled ? "Switch on" : "Switch off", () => change("PATCH", pathOf(user.name), { enabled: user.disabled }, tell(user.disabled ? "is switched on" : "is switched off"))),
    button(user.admin ? "Remove administrator rights" : "Make administrator", () => change("PATCH", pathOf(user.name), { admin: !user.admin }, tell(user.admin ? "is no longer an administrator" : "is an administrator"))),
    button("Remove user", async () => confirm(`Remove ${user.name} with its rules and tokens?`) && change("DELETE", pathOf(user.name), undefined, tell("is removed")), { class: "danger" }));
}

/** A row whose contents are created when it is opened, since there may be thousands. */
function row(name, summary, contents) {
  const made = element("details", { "data-name": name }, element("summary", {}, ...summary));
  made.build = () => {
    if (made.childElementCount === 1) made.append(element("div", { class: "user" }, ...contents()));
  };
  made.addEventListener("toggle", made.build);
  return made;
}

function userRow(user) {
  const badges = [user.admin ? element("span", { class: "badge tag" }, "administrator") : null, user.disabled ? element("span", { class: "badge reject" }, "switched off") : null];
  const summary = [element("b", { dir: "auto" }, user.name), element("span", { class: "badges" }, ...badges.filter(Boolean)),
    element("span", { class: "quiet" }, `${plural(user.rules.length, "rule")}, ${plural(user.tokens.length, "token")}`)];
  return row(user.name, summary, () => [
    element("h3", {}, "May"), rulesOf(user.name, user.rules),
    element("h3", {}, "Tokens"), tokensOf(user),
    element("h3", {}, "Account"), element("p", {}, "Address of this user here: ", linked("user", user.name)), passwordForm(user), accountOf(user)]);
}

function groupRow(name, rules) {
  const summary = [element("b", {}, GROUPS[name]), element("span", { class: "badges" }), element("span", { class: "quiet" }, plural(rules.length, "rule"))];
  return row(name, summary, () => [rulesOf(name, rules)]);
}

/** The cells of a change. */
function changeRow({ time, actor, origin, action, details }) {
  const what = Object.entries(details ?? {}).filter(([, value]) => value != null).map(([name, value]) => `${name}: ${value}`).join(", ");
  return [cell(when(Date.parse(time))), cell(actor), cell(origin), cell(mono(action)), cell(what)];
}

async function loadChanges() {
  const answer = await request("/admin/changes?count=50");
  if (!answer.ok) return;
  const { changes } = await answer.json();
  $("changes").replaceChildren(changes.length
    ? table("The last changes", [["When"], ["Who"], ["From"], ["What"], ["Details"]], changes.map(changeRow))
    : element("p", { class: "empty" }, "There are no changes yet."));
}

/** The rows that the search finds; rows that were open are opened again. */
function showUsers() {
  const open = new Set([...document.querySelectorAll("#users details[open]")].map((row) => row.dataset.name));
  const wanted = $("user-search").value.trim().toLowerCase();
  const found = known.users.filter((user) => user.name.toLowerCase().includes(wanted));
  const rows = found.slice(0, USERS_SHOWN).map(userRow);
  if (!wanted) rows.push(groupRow("everyone", known.everyone), groupRow("anonymous", known.anonymous));
  for (const row of rows.filter((row) => open.has(row.dataset.name))) {
    row.build();
    row.open = true;
  }
  $("users").replaceChildren(...rows);
  const { length: total } = known.users;
  const shown = Math.min(found.length, USERS_SHOWN);
  $("users-shown").textContent = wanted || shown < found.length ? `${plural(shown, "user")} of ${plural(total, "user")} shown` + (shown < found.length ? "; search for the others" : "") : "";
  $("users-count").textContent = total ? plural(total, "user") : "no login required";
}

export async function loadUsers() {
  const answer = await request("/admin/users");
  if (!answer.ok) return;
  known = await answer.json();
  showUsers();
  const isFirst = known.users.length === 0;
  $("first-user").hidden = !isFirst;
  $("find-user").hidden = isFirst;
  $("new-admin").checked ||= isFirst;
  await loadChanges();
}

/** One user by the whole name. */
export async function findUser(name) {
  $("user-search").value = name;
  await loadUsers();
  const row = [...$("users").children].find((row) => row.dataset.name === name);
  if (!row) return say(STATUS, `No user is called ${name}.`, true);
  row.build();
  row.open = true;
  row.querySelector("summary").focus();
}

export function startAccess() {
  $("user-search").addEventListener("input", showUsers);
  $("find-user").addEventListener("submit", (event) => event.preventDefault());
  $("add-user").addEventListener("submit", async (event) => {
    event.preventDefault();
    const isFirst = !$("first-user").hidden;
    const body = { name: $("new-name").value.trim(), password: $("new-password").value, admin: $("new-admin").checked };
    const made = await ask(STATUS, "POST", "/admin/users", body, (user) => `${user.name} can log in from now on.`);
    if (!made) return;
    $("add-user").reset();
    // From the first user on this page needs a login too: reloading makes the browser ask for it.
    if (isFirst) return location.reload();
    // The new user is visible, however many there are.
    if (known.users.length >= USERS_SHOWN) $("user-search").value = body.name;
    await loadUsers();
  });
}
