package redisstore

import (
	"context"
	"fmt"
	"strings"
)

// infoScript is a script that returns the server's INFO about memory: a script may not call CONFIG, and many providers
// forbid it.
var infoScript = newScript("return redis.call('INFO', 'memory')")

// samples is how many hash tags are used to reach the nodes of a cluster: enough to miss hardly any node.
const samples = 256

// Warnings returns settings of the server under which limits do not hold: one sentence per problem, none if all is
// well. A server with a maxmemory-policy other than noeviction evicts keys when its memory is full, and a client that
// was refused then has its whole quota again. Warnings calls the server, or all nodes of a cluster, and is meant to be
// called once at startup. An error means that the settings could not be read, for example because INFO is forbidden.
func (s *Store) Warnings(ctx context.Context) ([]string, error) {
	calls := make([]Call, 1)
	if s.cluster {
		calls = make([]Call, samples)
	}
	for i := range calls {
		calls[i].Keys = []string{fmt.Sprintf("%s:settings:{%d}", s.opts.Prefix, i)}
	}
	calls, err := s.runOnce(ctx, &infoScript, calls)
	if err != nil {
		return nil, err
	}
	var warnings []string
	known := map[string]bool{}
	for i := range calls {
		if text := evictionWarning(calls[i].Reply); text != "" && !known[text] {
			known[text] = true
			warnings = append(warnings, text)
		}
	}
	return warnings, nil
}

// evictionWarning returns a warning if a server with this INFO evicts keys, otherwise "".
func evictionWarning(info string) string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	policy, limit := fields["maxmemory_policy"], fields["maxmemory"]
	if policy == "" || policy == "noeviction" || limit == "" || limit == "0" {
		return ""
	}
	return fmt.Sprintf("the server evicts keys when it uses %s bytes (maxmemory-policy is %s), and an evicted key has its whole "+
		"quota again; set maxmemory-policy to noeviction", limit, policy)
}
