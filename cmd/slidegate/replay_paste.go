package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
)

// suggestedName is the name of a suggested policy that is not based on a policy of a file.
const suggestedName = "suggested"

// paste returns the suggested limit as a policy to paste into a file, or "" if there is no suggestion. Replayed on the same traffic,
// the policy makes exactly the decisions of the suggestion.
func (r *replayCommand) paste(q replayTarget, in *input, found *replay.Findings) string {
	if found.Suggestion == nil {
		return ""
	}
	limit, err := slidegate.ParseLimit(found.Suggestion.Outcome.Limits[0].Limit)
	if err != nil {
		return "" // impossible: it has been replayed
	}
	file := config.File{Policies: []config.Policy{r.suggestedPolicy(q, in, limit)}}
	file.Service.AddressGroups = clientip.Grouping{V4: r.V4, V6: r.V6}
	if q.policies != nil {
		file.Service.AddressGroups = q.policies.Grouping(file.Service.AddressGroups)
	}
	var lines []string
	match, note := r.match(in)
	if match != nil {
		file.Policies[0].Match = match
	}
	if note != "" {
		lines = append(lines, "# "+note)
	}
	live := file
	live.Policies = slices.Clone(file.Policies)
	live.Policies[0].Notify = nil // the service has it, and not what config.HTTP is for
	if _, err := config.HTTP(&live); err != nil {
		lines = append(lines, "# For replay only; the service rejects it: "+strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return strings.Join(append(lines, concise(&file)...), "\n") + "\n"
}

// suggestedPolicy returns the policy that was replayed, with its first limit replaced.
func (r *replayCommand) suggestedPolicy(q replayTarget, in *input, limit slidegate.Limit) config.Policy {
	policy := config.Policy{Name: suggestedName, Limits: slices.Clone(q.limits)}
	if q.policies != nil {
		own, err := q.file.Policy(q.policies.Policy(0).Name)
		if err == nil {
			policy = *own
			policy.Limits = slices.Clone(own.Limits)
		}
	}
	first := slices.IndexFunc(policy.Limits, func(l slidegate.Limit) bool { return l.Algorithm != slidegate.InFlight })
	policy.Limits[first] = limit
	if r.Key != "" {
		policy.Key, _ = fields.ParseTemplate(r.Key) // opening the traffic has checked it
	}
	if policy.Key.IsZero() {
		defaultKey := "{address}"
		if in.readers[0].Source().Format == "JSON lines" {
			defaultKey = "{key}"
		}
		policy.Key, _ = fields.ParseTemplate(defaultKey)
	}
	if r.Cost != "" {
		policy.Cost, _ = fields.ParseCost(r.Cost)
		policy.Match = slices.Clone(policy.Match)
		for i := range policy.Match {
			policy.Match[i].Cost = nil // the flag replaces it
		}
	}
	return policy
}

// patterns returns the patterns that could replace the filters in the match of a policy, or nil if none can.
func (r *replayCommand) patterns() *routing.Patterns {
	routes := r.routes()
	if len(routes) == 0 || len(r.Config) > 0 { // the policies of a file have their own match
		return nil
	}
	patterns, err := routing.NewPatterns(routes)
	if err != nil {
		return nil
	}
	return patterns
}

// routes returns the filters as patterns, or nil if patterns cannot express them: a pattern can neither match a status nor
// exclude requests.
func (r *replayCommand) routes() (routes []config.Route) {
	if len(r.Status) > 0 || len(r.Method)+len(r.Path) == 0 {
		return nil
	}
	paths := []string{"/"}
	if len(r.Path) > 0 {
		paths = nil
	}
	for _, given := range r.Path {
		path, below := strings.CutSuffix(given, "/*")
		if !strings.HasPrefix(given, "/") || strings.ContainsAny(path, "*{}?! ") || !below && strings.HasSuffix(path, "/") {
			return nil
		}
		if below {
			path += "/"
		}
		paths = append(paths, path)
	}
	if len(r.Method) == 0 {
		return config.Routes(paths...)
	}
	for _, method := range r.Method {
		if strings.HasPrefix(method, "!") {
			return nil
		}
		for _, path := range paths {
			routes = append(routes, config.Routes(strings.ToUpper(method)+" "+path)...)
		}
	}
	return routes
}

// match returns the patterns that match the same requests as the filters, or a note if there are none.
func (r *replayCommand) match(in *input) (match []config.Route, note string) {
	if len(r.Method)+len(r.Path)+len(r.Status) == 0 {
		return nil, ""
	}
	if r.patterns() == nil {
		return nil, "The figures apply with " + r.filters() + ", which match cannot express: replay with the same filters."
	}
	var differing int64
	for _, s := range in.sources() {
		differing += s.Differing
	}
	if differing > 0 {
		policy := config.Policy{Match: r.routes()}
		return nil, fmt.Sprintf("The figures apply with %s: replay with the same filters. match: %q would differ in %d of the lines.",
			r.filters(), policy.Patterns(), differing)
	}
	return r.routes(), ""
}

// filters returns the filters as flags.
func (r *replayCommand) filters() string {
	var flags []string
	for _, f := range []struct {
		name   string
		values []string
	}{{"--method", r.Method}, {"--path", r.Path}, {"--status", r.Status}} {
		for _, value := range f.values {
			flags = append(flags, f.name+" '"+value+"'")
		}
	}
	return strings.Join(flags, " ")
}

// concise returns the lines of a file with one policy, without the defaults: it omits every line that a policy with nothing but limits
// also has, except for the key and the cost.
func concise(file *config.File) (kept []string) {
	plain := config.File{Policies: []config.Policy{{Name: file.Policies[0].Name, Limits: file.Policies[0].Limits}}}
	defaults := strings.Split(string(config.Format(&plain)), "\n")
	for _, line := range strings.Split(strings.TrimSuffix(string(config.Format(file)), "\n"), "\n") {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		required := strings.HasPrefix(line, " ") && slices.Contains([]string{"key", "cost", "limits"}, name)
		deeper := strings.HasPrefix(line, "      ")
		if required || deeper || line == "policies:" || name == file.Policies[0].Name || !slices.Contains(defaults, line) {
			kept = append(kept, line)
		}
	}
	return kept
}
