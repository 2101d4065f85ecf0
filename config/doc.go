// Package config reads policies from YAML: named sets of limits, each with the key and the cost of a request. It is strict, so
// that a misspelled word never silently means no limit: every problem is reported, with its line and column and the word that
// was probably meant. Replay and the service read the same files through it, and so does the middleware: HTTP turns a file into
// options for package httplimit.
//
//	store: redis://:${REDIS_PASSWORD}@localhost:6379  # used by the service only; replay reads the policies
//	store_timeout: 100ms       # how long a decision may take
//	failure: local             # what decides when the store does not answer: local, closed or open
//	trusted_proxies: [10.0.0.0/8]
//	address_groups: {ipv6: 64} # addresses that share this many bits are one client
//	jwt: {verified: true}      # how bearer tokens are verified, for keys and plans by claim:NAME
//	envoy: {files: [rules/]}   # rules in the format of envoyproxy/ratelimit
//	default_policy: api        # for clients that name none
//	refusal:                   # the texts of refusals, for policies without their own
//	  type: https://example.com/problems/rate-limited
//	policies:
//	  api:
//	    match:                 # which requests, as patterns of http.ServeMux: one or a list; all by default
//	      - /api/
//	      - {path: POST /api/search, cost: 10}
//	    key: header:X-User     # who is limited; the client's address by default
//	    cost: 1                # a whole number, header:NAME, bytes, or field:PATH; 1 is the default
//	    limits:
//	      - 100/1m             # as slidegate.ParseLimit reads it
//	      - quota: 1000        # or field by field
//	        window: 1h
//	        algorithm: sliding-log
//	    overrides:             # other limits for some keys; the first match decides
//	      - key: alice
//	        limits: [500/1m]
//	      - keys: team-*       # * is any run of bytes
//	        unlimited: true
//	    plan: header:X-Plan    # where to find the plan of a request
//	    plans:                 # other limits for requests with a plan; the first match decides
//	      pro: {limits: [1000/1m]}
//	      internal: {unlimited: true}
//	    allow: [127.0.0.1]     # admitted, and charged nothing
//	    block: [key:bot-*]      # refused immediately; takes precedence over allow
//	    penalty: 10m           # a refusal by the limits keeps a key out for this long
//	    refusal: {detail: "Try again in {retry_after} seconds."}
//	    shadow: false          # count and report, but refuse nothing
//	    failure: closed        # for this policy
//	    lease: false           # whether a server charges units of busy keys in advance; not for sliding logs
//	  export:
//	    limits: [5/1h]
//	    wait: 2s               # a request may wait in line for this long instead of being refused; not with a penalty
//	    overrides_file: testdata/overrides/export.yaml # the same as overrides, in a file of its own
//	  models:
//	    key: header:X-Tenant
//	    limits: [600/1m]
//
// Format writes a file with all defaults spelled out, and Schema describes files to editors.
package config
