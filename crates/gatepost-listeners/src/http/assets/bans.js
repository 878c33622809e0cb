// The banned addresses and users.

import { $, ask, button, cell, fill, mono, request, when } from "./page.js";

const STATUS = "bans-status";

function banRow(ban) {
  const lift = async () => confirm(`Lift the ban of ${ban.network}?`) && ask(STATUS, "DELETE", "/admin/bans/" + encodeURIComponent(ban.network), undefined, () => `${ban.network} is no longer banned.`).then(loadBans);
  return [cell(mono(ban.network)), cell(when(ban.since * 1000)), cell(ban.ends ? when(ban.ends * 1000) : "until it is lifted"),
    cell(ban.times > 1 ? `${ban.reason} (${ban.times} bans in a row)` : ban.reason), cell(button("Lift", lift, { "aria-label": `Lift the ban of ${ban.network}` }), "number")];
}

export async function loadBans() {
  const answer = await request("/admin/bans");
  if (!answer.ok) return;
  const { bans } = await answer.json();
  fill("bans", bans.map(banRow));
}

export function startBans() {
  $("add-ban").addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = { network: $("ban-network").value.trim(), time: $("ban-time").value || null, reason: $("ban-reason").value.trim() };
    const made = await ask(STATUS, "POST", "/admin/bans", body, (ban) => `${ban.network} is banned.`);
    if (!made) return;
    $("add-ban").reset();
    await loadBans();
  });
}
