package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
)

// settings is a script that returns what the server says of its memory: CONFIG may not be called by a script, and is
// forbidden by many providers.
var settings = func() Script {
	const text = "return redis.call('INFO', 'memory')"
	sum := sha1.Sum([]byte(text)) // not for security: it is how Redis names scripts
	return Script{Text: text, SHA: hex.EncodeToString(sum[:])}
}()

// samples is how many places of a cluster are looked at: so many that hardly a node is missed.
const samples = 256

// Warnings reports settings of the server under which limits do not hold: one sentence each, none if all is well. A server
// with a maxmemory-policy other than noeviction forgets keys when its memory is full, and who was refused then has the whole
// quota again. It asks the server, all nodes of a cluster, and is meant to be called once at the start. An error means that
// the settings could not be read, as where INFO is forbidden.
func (s *Store) Warnings(ctx context.Context) ([]string, error) {
	calls := make([]Call, 1)
	if s.cluster {
		calls = make([]Call, samples)
	}
	for i := range calls {
		calls[i].Keys = []string{fmt.Sprintf("%s:settings:{%d}", s.opts.Prefix, i)}
	}
	s.conn.Run(ctx, &settings, calls)
	var warnings []string
	known := map[string]bool{}
	for i := range calls {
		if calls[i].Err != nil {
			return nil, callError(&calls[i])
		}
		if text := eviction(calls[i].Reply); text != "" && !known[text] {
			known[text] = true
			warnings = append(warnings, text)
		}
	}
	return warnings, nil
}

// eviction returns a warning if a server with this INFO evicts keys, else nothing.
func eviction(info string) string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	policy, most := fields["maxmemory_policy"], fields["maxmemory"]
	if policy == "" || policy == "noeviction" || most == "" || most == "0" {
		return ""
	}
	return fmt.Sprintf("the server forgets keys when it has %s bytes (maxmemory-policy is %s), and a key that is forgotten has its whole "+
		"quota again: set maxmemory-policy to noeviction", most, policy)
}
