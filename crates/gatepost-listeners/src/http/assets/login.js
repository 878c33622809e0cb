// The login page: one returns to the same place within a page. A link from another site arrives
// without the cookie, so the script asks again whether this browser is logged in.

const form = document.getElementById("login");
if (form) {
  const next = form.elements.next;
  if (location.hash && !next.value.includes("#")) next.value += location.hash;
  const answer = await fetch("/gatepost/session").catch(() => null);
  const session = answer?.ok ? await answer.json() : {};
  if (session.can_log_out) location.replace(next.value);
}
