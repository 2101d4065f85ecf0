// The instances: which version and configuration each runs, and how it is. Those that are gone stay in the list for a while, greyed.
import { h, keep, set, write } from "./dom.js";
import { clock, count, milliseconds, number, span, visible } from "./words.js";

const heads = ["Instance", "Health", "Store", "Median", "99th", "Leased", "In the proxy", "Version", "Configuration"];

export function update(seen) {
	const box = document.getElementById("instances"), gone = seen.instances.filter((one) => !one.alive).length;
	if (!box.firstChild) {
		box.append(h(".scroll", { tabindex: "0", role: "region", "aria-labelledby": "t-instances" }, h("table.stack", {},
			h("thead", {}, h("tr", {}, heads.map((head, i) => h("th", { scope: "col", class: i === 1 || i === 2 ? "text" : null }, head)))), h("tbody"))));
	}
	write(document.getElementById("instances-count"), count(seen.instances.length - gone, "running", "running") + (gone ? ", " + number(gone) + " gone" : ""));
	keep(box.querySelector("tbody"), seen.instances, (one) => one.id, make, (row, one) => fill(row, one, seen));
}

function make() {
	return h("tr", {}, h("th", { scope: "row" }, h("bdi"), h("small.details")),
		heads.slice(1).map((head, i) => h("td", { "data-label": head, class: i < 2 ? "text" : null })));
}

function fill(row, one, seen) {
	const [name, health, store, median, slow, leases, holds, version, config] = row.children;
	row.classList.toggle("gone", !one.alive);
	write(name.querySelector("bdi"), visible(one.name, 40));
	write(name.querySelector("small"), (one.id === seen.self ? "answers this page \u00b7 " : "") +
		(one.alive ? "up " + span(Date.parse(seen.now) - Date.parse(one.started)) : "last seen " + clock(one.seen)));
	const [mark, text] = condition(one);
	set(health, { "data-state": mark });
	write(health, text);
	write(store, visible(one.store ?? "", 30).replace(/^""$/, "\u2013"));
	write(median, one.latency_ms?.p50 > 0 ? milliseconds(one.latency_ms.p50) : "\u2013");
	write(slow, one.latency_ms?.p99 > 0 ? milliseconds(one.latency_ms.p99) : "\u2013");
	write(leases, number(one.leases_out || 0));
	write(holds, number(one.holds_out || 0));
	write(version, visible(one.version ?? "", 20));
	write(config, visible(one.config ?? "", 24).slice(0, 12));
	set(config, { title: visible(one.config ?? "", 100) });
}

// condition returns how an instance is: a mark, and words.
function condition(one) {
	if (!one.alive) return ["gone", "gone"];
	if (one.without_store) return ["bad", "without the store"];
	if (one.restart_needed?.length) return ["warn", "restart needed: " + one.restart_needed.map((name) => visible(name, 24)).join(", ")];
	return [one.health === "ready" ? "good" : "warn", visible(one.health ?? "unknown", 60)];
}
