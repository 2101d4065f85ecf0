package config

import "strings"

const schemeList = "(want one of memory, redis, rediss, redis+cluster, rediss+cluster, redis+sentinel, rediss+sentinel, postgres, postgresql, nats, tls)"

// top puts lines before a valid policy, and below puts them into a policy, where they begin on line 4.
func top(lines string) string {
	return lines + "\npolicies: {api: {limits: [1/s]}, login: {limits: [1/s]}}\n"
}
func below(lines string) string { return "policies:\n  a:\n    limits: [1/s]\n" + lines + "\n" }

// unlimited returns overrides of these keys, one on each line.
func unlimited(keys ...string) (lines string) {
	for _, key := range keys {
		lines += "      - {key: \"" + key + "\", unlimited: true}\n"
	}
	return lines
}

// badServiceFiles are files with errors in the parts for the server.
var badServiceFiles = []struct{ name, text, want string }{
	{"store kind", top("store: redsi://localhost"), `1:8: store: "redsi" is not a kind of store; did you mean "redis"? ` + schemeList},
	{"store capitals", top("store: Redis://localhost"), `1:8: store: "Redis" is not a kind of store; did you mean "redis"? ` + schemeList},
	{"store unknown", top("store: mysql://u:hunter2@h"), `1:8: store: "mysql" is not a kind of store ` + schemeList},
	{"store memory misspelt", top("store: \"memroy:\""), `1:8: store: "memroy" is not a kind of store; did you mean "memory"? ` + schemeList},
	{"store no URL", top("store: hunter2"),
		`1:8: store: must be a URL, such as redis://localhost:6379 or memory:, or ${NAME} or ${file:/path} for a variable or a file that contains one`},
	{"store no URL with a colon", top("store: u:hunter2@h:80"),
		`1:8: store: must be a URL, such as redis://localhost:6379 or memory:, or ${NAME} or ${file:/path} for a variable or a file that contains one`},
	{"store empty", top("store: \"\""),
		`1:8: store: must be a URL, such as redis://localhost:6379 or memory:, or ${NAME} or ${file:/path} for a variable or a file that contains one`},
	{"store memory alone", top("store: memory"), `1:8: store: write memory: and nothing else, or parameters after a ?`},
	{"store memory path", top("store: memory:x"), `1:8: store: write memory: and nothing else, or parameters after a ?`},
	{"store memory host", top("store: memory://x"), `1:8: store: a store in memory has no host; write memory: instead`},
	{"store slashes", top("store: redis:localhost"), `1:8: store: write redis:// and then the host`},
	{"store host", top("store: redis://u:hunter2@/0"), `1:8: store: the URL has no host; write redis://localhost, say`},
	{"store space", top("store: redis://u:hunter 2@h"),
		`1:8: store: the URL contains a space, a control character or a non-ASCII letter; write it percent-encoded, a space as %20`},
	{"store slash in password", top("store: redis://u:hunter/2@h"),
		`1:8: store: /, ?, # and @ in a password must be percent-encoded: %2F, %3F, %23, %40`},
	{"store at in password", top("store: redis://u:hunter@2@h"),
		`1:8: store: /, ?, # and @ in a password must be percent-encoded: %2F, %3F, %23, %40`},
	{"store hash in password", top("store: redis://u:hunter#2@h"),
		`1:8: store: /, ?, # and @ in a password must be percent-encoded: %2F, %3F, %23, %40`},
	{"store port", top("store: redis://h:hunter2"),
		`1:8: store: the host must be a name or an address, and the port a number, 1 to 65535; a / in a password must be written as %2F`},
	{"store percent", top("store: redis://u:hunter%2@h"),
		`1:8: store: % must be followed by two hexadecimal digits; write %25 for a literal %`},
	{"store list", top("store: [redis://u:hunter2@h]"), `1:8: store: must be a string, not a list`},
	{"store variable", top("store: redis://:${SLIDEGATE_TEST_NOT_SET}@h"),
		`1:8: store: the environment variable "SLIDEGATE_TEST_NOT_SET" is not set; set it`},
	{"store variable open", top("store: redis://:${NAME@h"),
		`1:8: store: ${ must be followed by the name of a variable, of letters, digits and _, or by file: and a path, and then by }; write $%7B for a literal ${`},
	{"store variable name", top("store: redis://:${a-b}@h"),
		`1:8: store: ${ must be followed by the name of a variable, of letters, digits and _, or by file: and a path, and then by }; write $%7B for a literal ${`},
	{"store elsewhere", top("failure: redis://u:hunter2@h"),
		`1:10: failure: "redis://u:***@h" is not a failure mode (want one of local, closed, open)`},
	{"store as a limit", "store: &s redis://u:hunter2@h\npolicies: {a: {limits: [*s]}}\n",
		`2:25: a limit must be a string such as 100/1m, not a URL`},

	{"penalty", below("    penalty: 10"), `4:14: penalty: "10" has no unit; write a duration such as 30s, 1m, 24h or 7d`},
	{"penalty of the calendar", below("    penalty: month"), `4:14: penalty: "month" is a calendar period; write a duration such as 10m or 24h`},
	{"penalty none", below("    penalty: 0s"), `4:14: penalty: "0s" is not a duration of 1ms to 5 years, such as 10m or 24h`},
	{"penalty list", below("    penalty: [10m]"), `4:14: penalty: must be a string, not a list`},
	{"penalty and lease", "policies: {a: {limits: [1000/1m segments=60 overlap=whole], lease: true, penalty: 10m}}",
		`1:83: penalty: the policy has leased limits, but with a penalty every request needs the store; leave out lease or penalty`},
	{"penalty by name", "policies: {a: {penalty: 10m, limits: [1/1s name=penalty]}}",
		`1:25: penalty: the policy has a limit named "penalty", which is reserved for the penalty; give the limit another name`},

	{"refusal text", below("    refusal: no"), `4:14: refusal: must be a mapping with type, title, detail or status, not "no"`},
	{"refusal field", below("    refusal: {text: no}"), `4:15: "text" is not a field of a refusal (want one of type, title, detail, status)`},
	{"refusal type", top("refusal: {type: rate-limited}"),
		`1:17: type: "rate-limited" is not an absolute URI, such as https://example.com/problems/rate-limited`},
	{"refusal status", below("    refusal: {status: 500}"), `4:23: status: must be 429, 402 or 403, not 500`},
	{"refusal empty", below("    refusal: {title: \"\"}"), `4:22: title: is empty; write a text, or leave it out`},
	{"refusal lines", below("    refusal:\n      title: |\n        two\n        lines"),
		`5:14: title: contains a control character, such as a line break; write one line`},
	{"refusal placeholder", below("    refusal:\n      detail: wait {seconds}"),
		`5:15: detail: unknown placeholder {seconds}; want {retry_after}, {limit} or {policy}, or {{ for a literal brace`},

	{"timeout", top("store_timeout: 100"), `1:16: store_timeout: "100" has no unit; write a duration such as 100ms or 1s`},
	{"timeout space", top("store_timeout: 100 ms"),
		`1:16: store_timeout: "100 ms" contains a space; write a duration such as 100ms or 1s`},
	{"timeout text", top("store_timeout: soon"), `1:16: store_timeout: "soon" is not a duration such as 100ms or 1s`},
	{"timeout short", top("store_timeout: 999us"), `1:16: store_timeout: must be 1ms to 1m, not "999us"`},
	{"timeout none", top("store_timeout: 0s"), `1:16: store_timeout: must be 1ms to 1m, not "0s"`},
	{"timeout negative", top("store_timeout: -1s"), `1:16: store_timeout: must be 1ms to 1m, not "-1s"`},
	{"timeout long", top("store_timeout: 60.001s"), `1:16: store_timeout: must be 1ms to 1m, not "60.001s"`},
	{"failure", top("failure: opne"), `1:10: failure: "opne" is not a failure mode; did you mean "open"? (want one of local, closed, open)`},
	{"failure empty", top(`failure: ""`), `1:10: failure: "" is not a failure mode (want one of local, closed, open)`},
	{"failure of a policy", below("    failure: close"),
		`4:14: failure: "close" is not a failure mode; did you mean "closed"? (want one of local, closed, open)`},
	{"default", top("default_policy: logn"), `1:17: default_policy: "logn" is not a policy; did you mean "login"? (want one of api, login)`},
	{"default list", top("default_policy: [api]"), `1:17: default_policy: must be a string, not a list`},
	{"proxies", top("trusted_proxies:\n- 10.0.0.1/8\n- fe80::1%eth0\n- local\n- 0.0.0.0/0\n- ::ffff:10.0.0.0/95\n- [::1]\n- 010.0.0.1\n- 10.0.0.0/33\n- fe80::%eth0/64"), `
2:3: trusted_proxies: "10.0.0.1/8" has bits beyond its length; write 10.0.0.0/8
3:3: trusted_proxies: "fe80::1%eth0" has a zone, and zones are not compared; write fe80::1
4:3: trusted_proxies: must be an address, or a prefix such as 10.0.0.0/8
5:3: trusted_proxies: every client would be trusted as a proxy; write the addresses of the proxies
6:3: trusted_proxies: "::ffff:10.0.0.0/95" is IPv4 mapped into IPv6, whose length must be 96 to 128; write it as IPv4
7:3: trusted_proxies: must be an address, or a prefix such as 10.0.0.0/8, not a list
8:3: trusted_proxies: must be an address, or a prefix such as 10.0.0.0/8
9:3: trusted_proxies: must be an address, or a prefix such as 10.0.0.0/8
10:3: trusted_proxies: "fe80::%eth0/64" has a zone, and zones are not compared; write fe80::`},
	{"proxies text", top("trusted_proxies: 10.0.0.0/8"),
		`1:18: trusted_proxies: must be a list of addresses, such as [10.0.0.0/8, 192.0.2.1], not "10.0.0.0/8"`},

	{"address groups", top("address_groups: {ipv4: 33, ipv6: 0, ipv8: 1, embedded_ipv4: maybe}"), `
1:24: ipv4: must be a prefix length of 1 to 32, not 33
1:34: ipv6: must be a prefix length of 1 to 128, not 0
1:37: "ipv8" is not a field of address_groups; did you mean "ipv4"? (want one of ipv4, ipv6, embedded_ipv4)
1:61: embedded_ipv4: must be true or false, not "maybe"`},
	{"address groups text", top("address_groups: 64"),
		`1:17: address_groups: must be a mapping with prefix lengths, such as {ipv4: 32, ipv6: 64}, not "64"`},
	{"keys that no request has", "policies:\n  a:\n    limits: [1/s]\n    key: address\n    overrides: [{key: alice, unlimited: true}, {keys: \"team-*\", unlimited: true}]\n    allow: [\"key:192.0.2.1/24\", \"key:2001:db8::/60\"]\n" +
		"  b:\n    key: \"{user} {path}\"\n    limits: [1/s]\n    block: [key:alice, \"key:alice /x y\", \"key:alice /x%20y\"]\n" +
		"  c:\n    key: header:X\n    limits: [1/s]\n    block: [\"key:bob\", \"key:address:bob\", \"key:address:2001:db8::3\", \"key:2001:db8::3\"]\naddress_groups: {ipv6: 56}\n", `
5:23: key: the key must be an address, or a prefix such as 203.0.113.0/24 (keys are written as requests have them, such as "203.0.113.7")
5:55: keys: the key is a pattern that no address fits, and keys are addresses here (keys are written as requests have them, such as "203.0.113.7")
6:13: allow: the key has bits beyond its length; write the prefix 192.0.2.0/24, or the address alone (keys are written as requests have them, such as "203.0.113.7")
6:33: allow: the key is not as addresses are counted; write 2001:db8::/56 (keys are written as requests have them, such as "203.0.113.7")
10:13: block: the key does not have all parts of the key (keys are written as requests have them, such as "alice /login")
10:24: block: the key has a value that no request has in place of {path} (keys are written as requests have them, such as "alice /login")
14:24: block: the key must be an address, or a prefix such as 203.0.113.0/24 (keys are written as requests have them, such as "alice")
14:43: block: the key is not as addresses are counted; write 2001:db8::/56 (keys are written as requests have them, such as "alice")`},
	{"match", "policies:\n  a: {limits: [1/s], match: \"\"}\n  b: {limits: [1/s], match: get /x}\n  c: {limits: [1/s], match: POST}\n" +
		"  d: {limits: [1/s], match: \"/{a}/{a}\"}\n  e: {limits: [1/s], match: /a//b}\n  f: {limits: [1/s], match: {path: /}}\n", `
2:29: match: the pattern is empty; leave match out for every request
3:29: match: methods are written in capitals; write "GET /x"
4:29: match: "POST" has no path; write "POST /"
5:29: match: "/{a}/{a}" is not a valid pattern of net/http: parsing "/{a}/{a}": at offset 5: duplicate wildcard name "a"
6:29: match: no request has the path "/a//b"; write "/a/b"
7:29: match: must be a pattern or a list, not a mapping; write [ and ] around it`},
	{"patterns of other languages", "policies:\n  a: {limits: [1/s], match: /api/*}\n  b: {limits: [1/s], match: ^/foo/.*$}\n" +
		"  c: {limits: [1/s], match: POST /users/:id}\n  d: {limits: [1/s], match: \"/items/{id:[0-9]+}\"}\n" +
		"  e: {limits: [1/s], match: \"*.example.com/\"}\n  f: {limits: [1/s], match: PSOT /login}\n" +
		"  g: {limits: [1/s], match: \"https://u:hunter2@shop.example/login\"}\n  h: {limits: [1/s], match: api/users}\n", `
2:29: match: * is not a wildcard here; write "/api/" for everything below it, {name} for one whole segment, or %2A for the character itself
3:29: match: "^": a pattern is not a regular expression; write "/foo/" for everything below it
4:29: match: ":id" is not a wildcard; write {id} for one whole segment, or %3A for the character itself
5:29: match: "{id:[0-9]+}" is not a wildcard; write {id} for one segment, {id...} for all that follows, or {$} for the end of the path
6:29: match: "*.example.com": a host has no wildcards; write one host, or leave it out for every host: "/"
7:29: match: unknown method "PSOT"; write "POST /login"
8:29: match: a pattern is not a URL; write "shop.example/login", or "/login" for every host
9:29: match: "api" would be read as a host; write "/api/users" for a path, or "api./users" for the host of this name`},
	{"shadow", below("    shadow: yes"), `4:13: shadow: must be true or false, not "yes"`},
	{"lists", below("    allow:\n      - alice\n      - key:\n      - key: alice\n      - 10.0.0.1/8\n      - \"key:\"\n    block: 10.0.0.1"), `
5:9: allow: must be an address, or a prefix such as 10.0.0.0/8; write key: before a key, as in key:alice
6:9: allow: must be an address, a prefix such as 10.0.0.0/8, or a key, not a mapping; put it in quotes, without a space: "key:alice", "2001:db8::1"
7:9: allow: must be an address, a prefix such as 10.0.0.0/8, or a key, not a mapping; put it in quotes, without a space: "key:alice", "2001:db8::1"
8:9: allow: "10.0.0.1/8" has bits beyond its length; write 10.0.0.0/8
9:9: allow: needs a key after "key:"
10:12: block: must be a list of addresses and keys, such as [10.0.0.0/8, key:alice], not "10.0.0.1"`},
	{"flow lists", "policies:\n  a: {limits: [1/s], allow: [key:vip, 2001:db8::1], key: [header:A, user]}\n", `
2:30: allow: must be an address, a prefix such as 10.0.0.0/8, or a key, not a mapping; put it in quotes, without a space: "key:alice", "2001:db8::1"
2:39: allow: must be an address, a prefix such as 10.0.0.0/8, or a key, not a mapping; put it in quotes, without a space: "key:alice", "2001:db8::1"
2:59: key: must be a string, not a mapping; put it in quotes: "{address}", "header:Name"`},
	{"long pattern", below("    block:\n      - key:" + strings.Repeat("a", 256) + "*\n    overrides:\n      - {keys: " + strings.Repeat("a", 256) + "*, unlimited: true}"), `
5:9: block: a pattern may have at most 256 bytes
7:9: keys: a pattern may have at most 256 bytes`},
	{"many stars", below("    block:\n      - key:" + strings.Repeat("a*", 17) + "\n      - key:" + strings.Repeat("a*", 16)),
		`5:9: block: a pattern may have at most 16 *`},

	{"overrides text", below("    overrides: alice"), `4:16: overrides: must be a list of mappings with key or keys, and limits, not "alice"`},
	{"overrides mapping", below("    overrides: {alice: [1/s]}"), `4:16: overrides: must be a list of mappings with key or keys, and limits, not a mapping`},
	{"override text", below("    overrides: [[alice]]"), `4:17: an override must be a mapping with key or keys, and limits, not a list`},
	{"override field", below("    overrides:\n      - {key: a, limit: [1/s]}\n      - {kye: a, limits: [1/s]}\n      - {key: a, unlimitted: true}"), `
5:18: "limit" is not a field of an override; did you mean "limits"? (want one of key, keys, limits, unlimited)
6:10: "kye" is not a field of an override; did you mean "key"? (want one of key, keys, limits, unlimited)
7:18: "unlimitted" is not a field of an override; did you mean "unlimited"? (want one of key, keys, limits, unlimited)`},
	{"override lacks", below("    overrides:\n      - {limits: [1/s]}\n      - {key: a}\n      - {key: a, unlimited: false}\n      - {key: a, keys: b*, limits: [1/s]}\n      - {key: a, limits: [1/s], unlimited: true}\n      - {key: a, limits: []}"), `
5:9: the override has no key; add key: NAME, or keys: with a pattern such as team-*
6:9: the override has no limits; add limits: [1000/1m], say, or unlimited: true
7:9: the override has no limits; add limits: [1000/1m], say, or unlimited: true
8:9: the override has key and keys; leave one out
9:9: the override has limits and is unlimited; leave one out
10:26: limits: must have at least one, such as 100/1m`},
	{"override key", below("    overrides:\n      - {key: hunter*, unlimited: true}\n      - {keys: hunter, unlimited: true}\n      - {key: [a], unlimited: true}"), `
5:15: key: contains a *; write keys: for a pattern, in which * is any run of bytes
6:16: keys: contains no *, which is any run of bytes; write key: for a single key
7:15: key: must be a string, not a list`},
	{"override limits", below("    overrides:\n      - {key: a, limits: [1/s, 2/s]}\n      - {key: b, limits: [1/1x]}"), `
5:32: the limit "2/1s" would share its counts with the one on line 5, which has the same name and shape; give it another name
6:27: invalid limit: window: "1x" is not a duration such as 30s, 1m, 24h or 7d (in "1/1x")`},
	{"override never reached", below("    overrides:\n      - {key: a1, unlimited: true}\n      - {keys: \"a*\", unlimited: true}\n      - {key: a1, limits: [1/s]}\n      - {keys: \"a*\", limits: [1/s]}\n" +
		"      - {key: a2, limits: [1/s]}\n      - {keys: \"a*b*\", limits: [1/s]}\n      - {keys: \"*a\", limits: [1/s]}\n      - {keys: \"*\", limits: [1/s]}\n      - {key: b, limits: [1/s]}"), `
7:9: this override is never reached, since the one on line 5 matches all of its keys; put it before that one, or leave it out
8:9: this override is never reached, since the one on line 6 matches all of its keys; put it before that one, or leave it out
9:9: this override is never reached, since the one on line 6 matches all of its keys; put it before that one, or leave it out
10:9: this override is never reached, since the one on line 6 matches all of its keys; put it before that one, or leave it out
13:9: this override is never reached, since the one on line 12 matches all of its keys; put it before that one, or leave it out`},
	{"override never reached, addresses", below("    overrides:\n" + unlimited("203.0.113.0/24", "203.0.113.7", "10.0.0.0/8", "10.1.0.0/16", "2001:db8::/64", "2001:db8::/64", "10.2.2.2",
		"10.0.0.0/8", "11.0.0.7", "11.0.0.0/24", "2001:db8::/32", "2001:db8:1::/64")), `
6:9: this override is never reached, since the one on line 5 matches all of its keys; put it before that one, or leave it out
8:9: this override is never reached, since the one on line 7 matches all of its keys; put it before that one, or leave it out
10:9: this override is never reached, since the one on line 9 matches all of its keys; put it before that one, or leave it out
11:9: this override is never reached, since the one on line 7 matches all of its keys; put it before that one, or leave it out
12:9: this override is never reached, since the one on line 7 matches all of its keys; put it before that one, or leave it out
16:9: this override is never reached, since the one on line 15 matches all of its keys; put it before that one, or leave it out`},
	{"override never reached, names", below("    key: [\"{header:X-User}\", \"{host}\"]\n    overrides:\n" + unlimited("bob", "alice", "bob", "host:example.com", "host:example.com") +
		"      - {keys: \"z*\", unlimited: true}\n      - {key: \"zoe\", unlimited: true}\n      - {key: \"address:10.0.0.0/8\", unlimited: true}\n      - {key: 10.1.1.1, unlimited: true}\n      - {key: \"address:10.1.1.2\", unlimited: true}"), `
8:9: this override is never reached, since the one on line 6 matches all of its keys; put it before that one, or leave it out
10:9: this override is never reached, since the one on line 9 matches all of its keys; put it before that one, or leave it out
12:9: this override is never reached, since the one on line 11 matches all of its keys; put it before that one, or leave it out
15:9: this override is never reached, since the one on line 13 matches all of its keys; put it before that one, or leave it out`},
}
