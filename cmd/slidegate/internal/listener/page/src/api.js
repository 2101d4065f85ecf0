// Talks to the admin API. The token is in this module's memory and nowhere else: not in the address, not in a storage, not in a cookie.

let token = "";

export function useToken(text) {
	token = text;
}

// Problem is a response that is not a success, or none.
export class Problem extends Error {
	constructor(status, text) {
		super(text);
		this.status = status;
	}
}

async function request(path, options = {}) {
	const headers = { Accept: "application/json", ...options.headers };
	if (token) headers.Authorization = "Bearer " + token;
	let response;
	try {
		response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" });
	} catch (problem) {
		if (problem.name === "AbortError") throw problem;
		throw new Problem(0, "The instance does not answer.");
	}
	if (response.ok) return response;
	let text = "The instance answered with status " + response.status + ".";
	try {
		const { field, detail } = await response.json();
		if (detail) text = (field ? field + ": " : "") + detail;
	} catch {
		// no problem document
	}
	throw new Problem(response.status, text);
}

export async function get(path, query = {}, signal) {
	const text = new URLSearchParams(query).toString();
	return (await request(path + (text && "?" + text), { signal })).json();
}

export async function post(path, body) {
	const response = await request(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
	return response.status === 204 ? null : response.json();
}

// A document is at most this long. The instance bounds it too.
const most = 8 << 20;

// follow calls each with the data of every event of a stream, until the stream or the signal ends. An event that is a problem ends it.
export async function follow(path, signal, each) {
	const response = await request(path, { signal, headers: { Accept: "text/event-stream" } });
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	const broken = (problem) => {
		throw signal.aborted ? problem : new Problem(0, "The connection was lost.");
	};
	let rest = "";
	for (;;) {
		const { value, done } = await reader.read().catch(broken);
		if (done) return;
		rest += value;
		const events = rest.split(/\r?\n\r?\n/);
		rest = events.pop();
		if (rest.length > most) throw new Problem(0, "The instance sent too much.");
		for (const event of events) {
			const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
			if (/^event: ?problem\r?$/m.test(event)) throw new Problem(JSON.parse(data).status, "The stream ended: " + JSON.parse(data).detail + ".");
			if (data) each(JSON.parse(data));
		}
	}
}
