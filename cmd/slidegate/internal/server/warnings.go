package server

import (
	"bufio"
	"log/slog"
	"os"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/config"
)

// logFile logs the warnings about the policy files.
func (s *Server) logFile(file *config.File) {
	for _, warning := range file.Warnings {
		s.log.Warn(warning.Error())
	}
	s.logSlots()
}

// logSlots logs which policies have an in-flight limit: proxies that send requests to /v1/check, and clients that use allow, get
// an error for them, because nothing would release the slot.
func (s *Server) logSlots() {
	if s.opts.HTTP == "" && s.opts.RESP == "" {
		return // no such request is possible; the proxy holds a slot while its request runs
	}
	for _, name := range s.gate.PoliciesWithSlots() {
		s.log.Warn("policy has an in-flight limit, so use /v1/acquire or SG.ACQUIRE: /v1/allow, /v1/check and SG.ALLOW return an error, "+
			"because nothing would release the slot; give the policy a match that no request to /v1/check fits, or use slidegate proxy", slog.String("policy", name))
	}
	for _, name := range s.gate.UntriedCandidates() {
		s.log.Warn("candidate has an in-flight limit, so it is not counted: nothing would release its slots; use slidegate proxy", slog.String("policy", name))
	}
}

// earlierState is the beginning of state files written when a limit without an algorithm was a sliding window.
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

// logLostCounts logs which limits lose the counts in a state file of an earlier version, because their algorithm is different now.
func (s *Server) logLostCounts(file *config.File) {
	for i := range file.Policies {
		p := &file.Policies[i]
		logged := map[string]bool{} // overrides may have equal limits
		for _, limit := range limitsNowLogs(p) {
			if text := limit.String(); !logged[text] {
				logged[text] = true
				s.log.Warn("limit starts empty: the state file was written by a version in which it was a sliding window, and it is a sliding-log now; "+
					"name sliding-window in the limit to keep its counts", slog.String("policy", p.Name), slog.String("limit", text))
			}
		}
	}
}

// limitsNowLogs returns the limits of a policy, its overrides, its plans and its candidate that were sliding windows in
// earlier versions and are sliding logs now, because they name no algorithm.
func limitsNowLogs(p *config.Policy) (limits []slidegate.Limit) {
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

// becameLog reports whether a limit without an algorithm is a sliding log now: because of its quota, or because it counts like
// the limit of own that it replaces.
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
