// Addresses of single items: #message/ID, #quarantine/ID, #rule/NAME, #topic/NAME, #session/CLIENT, #user/NAME.
// An address can be kept as a bookmark and shared with others.

import { findUser } from "./access.js";
import { showMessage, showRule } from "./journal.js";
import { showEntry } from "./quarantine.js";
import { findSession } from "./sessions.js";
import { watchTopic } from "./topics.js";

/** The view of each kind of item, and how the item is shown in it. */
const KINDS = {
  message: ["overview", showMessage], rule: ["overview", showRule], quarantine: ["quarantine", showEntry],
  topic: ["explorer", watchTopic], session: ["access", findSession], user: ["access", findUser],
};

/** The view of an address, and how to show its item once the view is there; null for another kind of address. */
export function placeOf(hash) {
  const [kind, ...rest] = hash.split("/");
  if (!rest.length || !Object.hasOwn(KINDS, kind)) return null;
  const [view, show] = KINDS[kind];
  try {
    const name = decodeURIComponent(rest.join("/"));
    return { view, show: () => show(name) };
  } catch {
    return null;
  }
}
