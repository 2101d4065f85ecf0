// What an operator does about one key: block it, raise its limits until a time, end that, or reset what it has used. Each needs a reason, which
// is in the history for all to see.
import { post } from "./api.js";
import { h, write } from "./dom.js";
import { clock, visible } from "./words.js";

const lengths = [["15m", "15 minutes"], ["1h", "1 hour"], ["24h", "24 hours"], ["7d", "7 days"]];

// Keys of rulings are written as people write them; "=" says that this one is exact.
const actions = {
	block: { label: "Block", submit: "Block the key", until: "optional", done: (end) => "Blocked" + end + ".", send: (key, form) => post("/v1/rulings", { ...about(key, form), kind: "block", ...form.end }) },
	raise: { label: "Raise", submit: "Change its limits", until: "required", limits: true, done: (end) => "Limits changed" + end + ".", send: (key, form) => post("/v1/rulings", { ...about(key, form), kind: "limits", limits: form.limits, ...form.end }) },
	reset: { label: "Reset", submit: "Forget what it has used", done: () => "Reset: the key starts with its full quota.", send: (key, form) => post("/v1/reset", { policy: key.policy, key: key.text, why: form.why }) },
	end: { label: "End the ruling", submit: "End the ruling", done: () => "The ruling has ended.", send: (key, form) => post("/v1/rulings/clear", about(key, form)) },
};

function about(key, form) {
	return { policy: key.policy, key: key.text, who: "operators\u2019 page", why: form.why };
}

// make returns the buttons and the form for a key. key() returns {policy, text}, state() its last state, and done is called after a change.
export function make(key, state, done) {
	const place = h("div.actionform"), result = h("p.result", { role: "status" });
	const buttons = Object.entries(actions).map(([name, action]) => h("button.button", {
		type: "button", "data-action": name, "aria-expanded": "false",
		onclick: (event) => {
			const open = event.currentTarget.getAttribute("aria-expanded") === "true";
			for (const button of buttons) button.setAttribute("aria-expanded", "false");
			write(result, "");
			if (open) return place.replaceChildren();
			event.currentTarget.setAttribute("aria-expanded", "true");
			place.replaceChildren(form(action, state(), send));
			place.querySelector("input, select").focus();
		},
	}, action.label));
	const element = h("section.actions", { "aria-label": "Change" }, h("div.buttons", {}, buttons), place, result);
	async function send(action, entered, problem) {
		let answer;
		try {
			answer = await action.send(key(), entered);
		} catch (failed) {
			return write(problem, failed.message);
		}
		place.replaceChildren();
		for (const button of buttons) button.setAttribute("aria-expanded", "false");
		const notes = [answer?.ruling?.note, ...(answer?.notes ?? [])].filter(Boolean).map((note) => "Note: " + visible(note, 400) + ".");
		write(result, [action.done(entered.words), ...notes].join(" "));
		buttons.find((button) => !button.hidden)?.focus();
		done();
	}
	return { element, update: () => { element.querySelector("[data-action=end]").hidden = !state()?.ruling; } };
}

let fields = 0;

function form(action, state, send) {
	const id = (name) => "f" + fields + name, problem = h("p.problem", { role: "alert" });
	fields++;
	const parts = [];
	if (action.limits) {
		const texts = (state?.limits ?? []).map((limit) => limit.text);
		const input = h("input", { id: id("limits"), name: "limits", required: true, spellcheck: "false", autocomplete: "off", "aria-describedby": id("hint") });
		input.value = [...new Set(texts)].map(doubled).join(", ");
		parts.push(h(".field.wide", {}, h("label", { for: id("limits") }, "Limits, with commas between them"), input, h("small.details", { id: id("hint") }, "They replace all limits of the policy for this key.")));
	}
	if (action.until) {
		const time = h("input", { id: id("time"), name: "time", type: "datetime-local", hidden: true, "aria-label": "Until" });
		const select = h("select", {
			id: id("for"), name: "for",
			onchange: () => {
				time.hidden = select.value !== "time";
				time.required = !time.hidden;
				if (!time.hidden && !time.value) time.value = local(Date.now() + 3600e3);
			},
		}, lengths.map(([value, text]) => h("option", { value }, text)), h("option", { value: "time" }, "Until a time"), action.until === "optional" ? h("option", { value: "" }, "Until it is ended") : null);
		select.value = "1h";
		parts.push(h(".field", {}, h("label", { for: id("for") }, "For"), select, time));
	}
	parts.push(h(".field.wide", {}, h("label", { for: id("why") }, "Reason"), h("input", { id: id("why"), name: "why", required: true, pattern: ".*\\S.*", maxlength: 200, autocomplete: "off", title: "Say why; it is kept in the history" })));
	const submit = h("button.button.primary", { type: "submit" }, action.submit);
	return h("form", {
		onsubmit: async (event) => {
			event.preventDefault();
			submit.disabled = true;
			await send(action, read(event.target), problem);
			submit.disabled = false;
		},
	}, parts, problem, submit);
}

function read(form) {
	const { why, limits, for: length, time } = form.elements, entered = { why: why.value.trim(), words: "", end: {} };
	if (limits) entered.limits = limits.value.split(",").map((text) => text.trim()).filter(Boolean);
	if (!length) return entered;
	if (length.value === "time") {
		const until = new Date(time.value);
		entered.end = { until: until.toISOString() };
		entered.words = " until " + clock(until);
	} else if (length.value) {
		entered.end = { for: length.value };
		entered.words = " for " + lengths.find(([value]) => value === length.value)[1];
	}
	return entered;
}

// doubled is a proposal: a limit with twice the quota and the same window, so that what was used still counts.
function doubled(text) {
	return text.replace(/^\d+/, (quota) => String(2 * Number(quota)));
}

// local formats a time as inputs of the type datetime-local do.
function local(ms) {
	const at = new Date(ms);
	return new Date(ms - at.getTimezoneOffset() * 60e3).toISOString().slice(0, 16);
}
