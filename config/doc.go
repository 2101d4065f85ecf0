// Package config reads policies from YAML: named sets of limits, each with the rule that makes the key of a request and
// the cost of one. It is strict, so that a misspelt word never silently means no limit: every problem is reported, with
// its line and column and the word that was probably meant. Replay, the middleware and the server all read the same
// files through it.
//
//	policies:
//	  api:
//	    key: "{address}"     # who is limited; this is the default
//	    cost: 1              # a whole number, bytes, or field:PATH; 1 is the default
//	    limits:
//	      - 100/1m           # as slidegate.ParseLimit reads it
//	      - quota: 1000      # or field by field
//	        window: 1h
//	        algorithm: sliding-log
package config
