// The keys: who is refused most, and who is nearest to a limit. They are masked; a row opens the panel of its key.
import { h, keep, svg, set, write } from "./dom.js";
import { causes, counts, masked, number, percent, tag, visible } from "./words.js";

const most = { refused: 6, nearest: 6 };
const first = 6;

// update shows the keys of one list.
export function update(list, keys, minutes, open) {
	const box = document.getElementById(list);
	write(document.getElementById(list + "-range"), (list === "nearest" ? "not refused, " : "") + (minutes === 1 ? "last minute" : "last " + minutes + " minutes"));
	if (!box.firstChild) box.append(table(list), h("p.sub.empty"), h("button.button.more", { type: "button", hidden: true, onclick: () => more(list, open) }));
	box.last = { keys, minutes };
	box.querySelector("table").hidden = keys.length === 0;
	write(box.querySelector(".empty"), keys.length ? "" : list === "refused" ? "No key was refused." : "No key that was not refused is near its limit.");
	keep(box.querySelector("tbody"), keys.slice(0, most[list]), (key) => key.policy + "\n" + key.id, (key) => make(list, key, open), (row, key) => fill(list, row, key));
	const button = box.querySelector(".more");
	button.hidden = keys.length <= first;
	write(button, most[list] > first ? "Show fewer" : "Show all " + number(keys.length));
}

function more(list, open) {
	most[list] = most[list] > first ? first : Infinity;
	const { keys, minutes } = document.getElementById(list).last;
	update(list, keys, minutes, open);
}

function table(list) {
	const heads = list === "refused" ? ["Key", "Refused", "Admitted", "Refused by"] : ["Key", "Used", "Admitted", "Limit"];
	return h("table.who", { "aria-labelledby": "t-" + list },
		h("thead", {}, h("tr", {}, heads.map((head, i) => h("th", { scope: "col", class: i === 3 || (i === 1 && list === "nearest") ? "text" : null }, head)))),
		h("tbody"));
}

function make(list, key, open) {
	const button = h("button.keybutton", { type: "button" }, h("bdi"), h("span.keyid"));
	const row = h("tr", {}, h("th", { scope: "row" }, button, h("small.details")),
		list === "refused" ? h("td.strong") : h("td.text.used", {}, meter(), h("span")), h("td"), h("td.text.why"));
	button.addEventListener("click", () => open(row.key));
	return row;
}

function meter() {
	return svg("svg", { class: "meter", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
		svg("rect", { class: "ground", width: 100, height: 8 }), svg("rect", { class: "level", width: 0, height: 8 }));
}

function fill(list, row, key) {
	row.key = key;
	const [name, one, two, why] = row.children, atLeast = key.at_least ? "\u2265\u00a0" : "";
	const { refused, admitted } = counts(key);
	write(name.querySelector("bdi"), visible(key.masked, 32));
	write(name.querySelector(".keyid"), tag(key));
	set(name.querySelector("button"), { "aria-label": "Open " + masked(key) + " of " + visible(key.policy, 32) });
	write(name.querySelector("small"), [visible(key.policy, 28), ...(key.routes ?? []).slice(0, 2).map((route) => visible(route, 36))].join(" \u00b7 "));
	write(two, atLeast + number(admitted));
	if (list === "refused") {
		write(one, atLeast + number(refused));
		write(why, causes(key));
		return;
	}
	set(one.querySelector(".level"), { width: Math.min(100, Math.max(1.5, 100 * key.share)).toFixed(1), class: key.share >= 1 ? "level full" : "level" });
	write(one.querySelector("span"), percent(key.share, 1));
	write(why, visible(key.limit ?? "", 40).replace(/^""$/, ""));
}
