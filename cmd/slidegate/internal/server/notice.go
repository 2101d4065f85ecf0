package server

import (
	"bufio"
	"log/slog"
	"os"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
)

// tellSlots logs which policies have an in-flight limit: proxies that have requests checked, and clients that ask allow, get an error
// for them, because nobody would release the slot.
func (s *Server) tellSlots() {
	if s.opts.HTTP == "" && s.opts.RESP == "" {
		return // nobody can ask so: a proxy holds the slot while the request runs
	}
	for _, name := range s.gate.Holding() {
		s.log.Warn("policy has an in-flight limit, so it is asked with /v1/acquire or SG.ACQUIRE: /v1/allow, /v1/check and SG.ALLOW answer with an error, "+
			"because nobody would release the slot; give it a match that no request to /v1/check fits, or use slidegate proxy", slog.String("policy", name))
	}
	for _, name := range s.gate.Untried() {
		s.log.Warn("candidate has an in-flight limit, so it is not counted: nobody would release its slots; use slidegate proxy", slog.String("policy", name))
	}
}

// earlierState is how a state file begins that was written when a limit that names no algorithm was a sliding window.
const earlierState = "slidegate memory 1\n"

// isEarlierState reports whether a state file was written by such a version.
func isEarlierState(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	begin, _ := bufio.NewReader(file).Peek(len(earlierState))
	return string(begin) == earlierState
}

// tellEarlier logs which limits do not go on with the counts of a state file of an earlier version, because they count otherwise
// now.
func (s *Server) tellEarlier(file *config.File) {
	for i := range file.Policies {
		p := &file.Policies[i]
		told := map[string]bool{} // an override may say what another one does
		for _, limit := range limitsThatWere(p) {
			if text := limit.String(); !told[text] {
				told[text] = true
				s.log.Warn("limit starts empty: the state file is of a version in which it was a sliding window, and it is a sliding-log now; "+
					"name sliding-window in the limit to go on with its counts", slog.String("policy", p.Name), slog.String("limit", text))
			}
		}
	}
}

// limitsThatWere returns the limits of a policy, of its overrides and of its candidate that were sliding windows when a limit that
// names no algorithm always was, and are sliding logs now.
func limitsThatWere(p *config.Policy) (limits []slidegate.Limit) {
	add := func(given, own []slidegate.Limit) {
		for _, limit := range given {
			if becameLog(limit, own) {
				limits = append(limits, limit)
			}
		}
	}
	add(p.Limits, nil)
	for _, o := range p.Overrides {
		add(o.Limits, p.Limits)
	}
	for _, plan := range p.Plans {
		add(plan.Limits, p.Limits)
	}
	add(p.Candidate, nil)
	return limits
}

// becameLog reports whether a limit without an algorithm is a sliding log now: by itself, or because it counts as one of own does, the
// limits that it stands in for.
func becameLog(limit slidegate.Limit, own []slidegate.Limit) bool {
	counts := limit
	for _, base := range own {
		if base.Name == limit.Name {
			counts = counts.Like(base)
		}
	}
	bound, err := slidegate.Bind("", counts)
	return err == nil && limit.Algorithm == slidegate.DefaultAlgorithm && bound.Rule().Algorithm == slidegate.SlidingLog
}
