// Adds up the minutes of policies. What shadow mode would have refused was admitted, so it counts there too.

const none = { admitted: 0, refused: 0, shadow_refused: 0, without_store: 0 };
const series = Object.keys(none);

function add(to, minute) {
	for (const name of series) to[name] += minute[name] || 0;
	to.admitted += minute.shadow_refused || 0;
	return to;
}

const minute = 60_000;

// total adds up the current minute and so many before it.
export function total(policies, now, minutes) {
	const from = Date.parse(now) - minutes * minute, sum = { ...none };
	for (const policy of policies) {
		for (const one of policy.minutes ?? []) if (Date.parse(one.at) + minute > from) add(sum, one);
	}
	return sum;
}

const places = 61;

// hour returns the current minute of policies and the sixty before it, the oldest first, with zeros where nothing was decided.
export function hour(policies, now) {
	const last = Math.floor(Date.parse(now) / minute);
	const all = Array.from({ length: places }, (_, i) => ({ at: (last - places + 1 + i) * minute, ...none }));
	for (const policy of policies) {
		for (const one of policy.minutes ?? []) {
			const place = Math.floor(Date.parse(one.at) / minute) - last + places - 1;
			if (place >= 0 && place < places) add(all[place], one);
		}
	}
	return all;
}
