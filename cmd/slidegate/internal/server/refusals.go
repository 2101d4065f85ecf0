package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
)

// What the log says of a key that was refused. Keys are personal data: without being asked for, they are in no log.
const (
	LogRefusalsHashed = "hashed" // a hash of the key, the same for as long as the process runs
	LogRefusalsKeys   = "keys"   // the key itself
)

const (
	refusalEvery = 10 * time.Second // how often a key is logged at most
	refusalLines = 10               // how many lines there are in a second at most
)

// refusalLog logs a sample of the refusals. Its lines say how many were left out before them, so that lines and numbers add up to
// all refusals. It is safe for concurrent use; nil logs nothing.
type refusalLog struct {
	log    *slog.Logger
	plain  bool
	secret []byte // of the hashes: without it, the address behind a hash could be found by trying all
	limits func(policy, key string) []slidegate.Limit

	mu      sync.Mutex
	second  time.Time // the one that is counted
	lines   int       // in it
	recent  map[topName]time.Time
	leftOut int64
}

func newRefusalLog(mode string, log *slog.Logger, limits func(policy, key string) []slidegate.Limit) *refusalLog {
	if mode == "" {
		return nil
	}
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	return &refusalLog{log: log, plain: mode == LogRefusalsKeys, secret: secret, limits: limits, recent: map[topName]time.Time{}}
}

// add logs a refusal, or counts it as left out. Rule is Envoy's; it may be empty.
func (r *refusalLog) add(policy, key, rule string) {
	if r == nil {
		return
	}
	if len(key) > maxTopKeySize {
		key = key[:maxTopKeySize]
	}
	leftOut, ok := r.admit(topName{policy, key})
	if !ok {
		return
	}
	who := slog.String("key", key)
	if !r.plain {
		who = slog.String("key_hash", r.hash(key))
	}
	attrs := []any{slog.String("policy", policy), who}
	if rule != "" {
		attrs = append(attrs, slog.String("rule", rule))
	}
	var limits []string
	for _, limit := range r.limits(policy, key) {
		limits = append(limits, limit.String())
	}
	r.log.Info("refused", append(attrs, slog.String("limits", strings.Join(limits, ", ")), slog.Int64("left_out", leftOut))...)
}

// admit reports whether a refusal gets a line, and how many were left out before it.
func (r *refusalLog) admit(name topName) (leftOut int64, ok bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.second) >= time.Second {
		r.second, r.lines = now, 0
		for name, last := range r.recent { // never more than the lines of some seconds
			if now.Sub(last) >= refusalEvery {
				delete(r.recent, name)
			}
		}
	}
	last, known := r.recent[name]
	if known && now.Sub(last) < refusalEvery || r.lines == refusalLines {
		r.leftOut++
		return 0, false
	}
	r.lines++
	name.key = strings.Clone(name.key) // the caller's may change
	r.recent[name] = now
	leftOut, r.leftOut = r.leftOut, 0
	return leftOut, true
}

func (r *refusalLog) hash(key string) string {
	sum := hmac.New(sha256.New, r.secret)
	sum.Write([]byte(key))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// close logs how many refusals no line has told of.
func (r *refusalLog) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leftOut > 0 {
		r.log.Info("refused: the rest", slog.Int64("left_out", r.leftOut))
		r.leftOut = 0
	}
}

// refused takes note of a key that was refused by a policy, and of the rule if that is Envoy's.
func (s *Server) refused(policy, key, rule string) {
	s.top.add(policy, key, rule)
	s.refusals.add(policy, key, rule)
}
