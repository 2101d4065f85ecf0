// The policies: which refuses, how near the nearest key that it did not refuse is to a limit. Choosing one shows only its requests and keys.
import { h, keep, svg, set, write } from "./dom.js";
import { hour, total } from "./sums.js";
import { count, number, percent, visible } from "./words.js";

const box = () => document.getElementById("policies");

// update lists the policies, those that refuse most first.
export function update(seen, minutes, chosen, choose) {
	const nearest = new Map();
	for (const key of seen.keys?.[minutes]?.nearest ?? []) nearest.set(key.policy, Math.max(nearest.get(key.policy) ?? 0, key.share || 0));
	const rows = seen.policies.map((policy) => ({ policy, sum: total([policy], seen.now, minutes), near: nearest.get(policy.name) }));
	rows.sort((a, b) => b.sum.refused - a.sum.refused || b.sum.admitted - a.sum.admitted || a.policy.name.localeCompare(b.policy.name));
	write(document.getElementById("policies-count"), count(rows.length, "policy", "policies"));
	const every = { every: true, sum: total(seen.policies, seen.now, minutes) };
	keep(box(), rows.length > 1 ? [every, ...rows] : rows, (row) => (row.every ? "*" : "=" + row.policy.name), (row) => make(row, choose), (element, row) => fill(element, row, seen, chosen));
}

function make(row, choose) {
	const name = row.every ? null : row.policy.name;
	return h("label.policy", {},
		h("input", { type: "radio", name: "policy", onchange: () => choose(name) }),
		h("span.policyrow", {},
			h("span", {}, h("span.policyname", {}, h("bdi"), h("span.tag", { hidden: true }, "shadow")), h("span.policylimits")),
			row.every ? h("span.spark") : svg("svg", { class: "spark", viewBox: "0 0 183 24", preserveAspectRatio: "none", "aria-hidden": "true" },
				svg("path", { class: "spark-admitted" }), svg("path", { class: "spark-refused" })),
			h("span.policyshare", {}, h("b"), h("span"), h("span.policyout"))));
}

function fill(element, row, seen, chosen) {
	const { policy, sum, near } = row, part = (name) => element.querySelector(name);
	element.querySelector("input").checked = row.every ? chosen == null : chosen === policy.name;
	write(part("bdi"), row.every ? "All policies" : visible(policy.name, 40));
	write(part("b"), sum.refused > 0 ? percent(sum.refused, sum.admitted + sum.refused) + " refused" : "");
	if (row.every) {
		write(part(".policylimits"), count(sum.admitted + sum.refused, "decision"));
		return;
	}
	part(".tag").hidden = !policy.shadow;
	const limits = (policy.limits ?? []).map((limit) => visible(limit, 40)).join(", ") || "no limit";
	write(part(".policylimits"), limits + (near > 0 ? " \u00b7 nearest\u00a0" + percent(near, 1).replace(/\.\d/, "") : ""));
	const out = [policy.leases_out > 0 && number(policy.leases_out) + "\u00a0leased", policy.holds_out > 0 && number(policy.holds_out) + "\u00a0in\u00a0the\u00a0proxy", policy.waiting > 0 && number(policy.waiting) + "\u00a0in\u00a0line"];
	write(part(".policyout"), out.filter(Boolean).join(", "));
	draw(element.querySelector("svg"), hour([policy], seen.now));
	const [text, title] = beside(row);
	write(part("b ~ span"), text);
	set(part("b ~ span"), { title });
}

// beside returns what shadow mode would refuse, to be shown below what is refused.
function beside({ sum }) {
	return sum.shadow_refused > 0 ? [number(sum.shadow_refused) + " in shadow", "Shadow mode would have refused them"] : ["", null];
}

// draw draws an hour as bars of a minute each.
function draw(drawing, minutes) {
	const most = Math.max(1, ...minutes.map((one) => one.admitted + one.refused));
	let admitted = "", refused = "";
	minutes.forEach((one, i) => {
		const high = (24 * one.admitted) / most, over = one.refused > 0 ? Math.max(1.5, (24 * one.refused) / most) : 0;
		if (high > 0) admitted += `M${3 * i} 24v${-high.toFixed(1)}h2.2v${high.toFixed(1)}z`;
		if (over > 0) refused += `M${3 * i} ${(24 - Math.min(high, 24 - over)).toFixed(1)}v${-over.toFixed(1)}h2.2v${over.toFixed(1)}z`;
	});
	set(drawing.querySelector(".spark-admitted"), { d: admitted || null });
	set(drawing.querySelector(".spark-refused"), { d: refused || null });
}
