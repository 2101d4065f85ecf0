// What an operator does about one key: block it, raise its limits until a time, end that, or reset what it has used. Each needs a reason, which
// is in the history for all to see.
import { post } from "./api.js";
import { h, write } from "./dom.js";
import { moment, visible } from "./words.js";

const lengths = [["15m", "15 minutes"], ["1h", "1 hour"], ["24h", "24 hours"], ["7d", "7 days"]];

const actions = {
	block: { label: "Block", submit: "Block the key", until: "optional", done: (end) => "Blocked" + end + ".", send: (key, form) => post("/v1/rulings", { ...about(key, form), kind: "block", ...form.end }) },
	raise: { label: "Raise", submit: "Change its limits", until: "optional", limits: true, done: (end) => "Limits changed" + end + ".", send: (key, form) => post("/v1/rulings", { ...about(key, form), ...form.limits, ...form.end }) },
	reset: { label: "Reset", submit: "Forget what it has used", done: () => "Reset: the key starts with its full quota.", send: (key, form) => post("/v1/reset", about(key, form)) },
	end: { label: "End the ruling", submit: "End the ruling", done: () => "The ruling has ended.", send: (key, form, ruling) => post("/v1/rulings/clear", { ...about(key, form), key: ruling.key }) },
};

function about(key, form) {
	return { policy: key.policy, key: key.text, who: "operators\u2019 page", why: form.why };
}

// isWider reports whether a ruling is about more than the key of a state: a prefix.
export function isWider(ruling, state) {
	return ruling.key !== state.key;
}

// make returns the buttons and the form for a key. key() returns {policy, text}, state() its last state, policy() what is known of its policy,
// and done is called after a change.
export function make(key, state, policy, done) {
	const place = h("div.actionform"), result = h("p.result", { role: "status" });
	const buttons = Object.entries(actions).map(([name, action]) => h("button.button", {
		type: "button", "data-action": name, "aria-expanded": "false",
		onclick: (event) => {
			const open = event.currentTarget.getAttribute("aria-expanded") === "true";
			for (const button of buttons) button.setAttribute("aria-expanded", "false");
			write(result, "");
			if (open) return place.replaceChildren();
			event.currentTarget.setAttribute("aria-expanded", "true");
			place.replaceChildren(form(action, proposal(key(), state(), policy()), send));
			place.querySelector("input, select").focus();
		},
	}, action.label));
	const element = h("section.actions", { "aria-label": "Change" }, h("div.buttons", {}, buttons), place, result);
	async function send(action, entered, problem) {
		let answer;
		try {
			answer = await action.send(key(), entered, state()?.ruling);
		} catch (failed) {
			return write(problem, failed.message);
		}
		place.replaceChildren();
		for (const button of buttons) button.setAttribute("aria-expanded", "false");
		const notes = [answer?.ruling?.note, ...(answer?.notes ?? [])].filter(Boolean).map((note) => "Note: " + visible(note, 400) + ".");
		if (answer?.seen?.length === 0) notes.push("Note: nothing was seen of it. The limits of the policy count nothing for it now, and this instance has refused none of it: check the spelling.");
		write(result, [action.done(entered.words), ...notes].join(" "));
		buttons.find((button) => !button.hidden)?.focus();
		done();
	}
	const button = (name) => element.querySelector("[data-action=" + name + "]");
	return {
		element,
		update() {
			const { ruling, prefix } = state();
			button("end").hidden = !ruling;
			if (ruling) write(button("end"), isWider(ruling, state()) ? "End the ruling for " + visible(ruling.key, 40) : actions.end.label);
			button("reset").hidden = Boolean(prefix); // stores cannot list its keys
		},
	};
}

let fields = 0;

// proposal returns limits to begin with: those of the key, doubled. There is none if they may not be its limits, since requests choose them.
function proposal(key, state, policy) {
	const texts = (state?.limits ?? []).map((limit) => limit.text), doubt = key.id ? key.limit && !texts.includes(key.limit) : policy?.varies;
	if (texts.length) return doubt ? [] : texts.map(doubled);
	return policy && !policy.varies && !state?.override ? policy.limits.map(doubled) : []; // of one that is blocked
}

function form(action, proposed, send) {
	const id = (name) => "f" + fields + name, problem = h("p.problem", { role: "alert" });
	fields++;
	const parts = [];
	if (action.limits) {
		const input = h("input", { id: id("limits"), name: "limits", required: true, spellcheck: "false", autocomplete: "off", placeholder: "such as 200/1m, 5000/1h", "aria-describedby": id("hint") });
		input.value = [...new Set(proposed)].join(", ");
		parts.push(h(".field.wide", {}, h("label", { for: id("limits") }, "Limits, with commas between them"), input, h("small.details", { id: id("hint") }, "They replace all limits of the policy for this key, also those of its plan; unlimited admits everything.")));
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
	if (limits) {
		const texts = limits.value.split(",").map((text) => text.trim()).filter(Boolean);
		entered.limits = texts.length === 1 && texts[0] === "unlimited" ? { kind: "unlimited" } : { kind: "limits", limits: texts };
	}
	if (!length) return entered;
	if (length.value === "time") {
		const until = new Date(time.value);
		entered.end = { until: until.toISOString() };
		entered.words = " until " + moment(until);
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
