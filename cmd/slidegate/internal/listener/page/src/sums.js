// Adds up the minutes of policies.

const none = { admitted: 0, refused: 0, shadow_refused: 0, without_store: 0 };
export const series = Object.keys(none);

function add(to, minute) {
	for (const name of series) to[name] += minute[name] || 0;
	return to;
}

const minute = 60_000;

// total adds up the last minutes of policies, up to now.
export function total(policies, now, minutes) {
	const from = Date.parse(now) - minutes * minute, sum = { ...none };
	for (const policy of policies) {
		for (const one of policy.minutes ?? []) if (Date.parse(one.at) + minute > from) add(sum, one);
	}
	return sum;
}

// hour returns the last sixty minutes of policies, the oldest first, with zeros where nothing was decided.
export function hour(policies, now) {
	const last = Math.floor(Date.parse(now) / minute);
	const all = Array.from({ length: 60 }, (_, i) => ({ at: (last - 59 + i) * minute, ...none }));
	for (const policy of policies) {
		for (const one of policy.minutes ?? []) {
			const place = Math.floor(Date.parse(one.at) / minute) - last + 59;
			if (place >= 0 && place < 60) add(all[place], one);
		}
	}
	return all;
}
