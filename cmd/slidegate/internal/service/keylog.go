package service

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
)

// How keys appear in the log. Keys are personal data: they are never logged by default.
const (
	LogRefusalsHashed = "hashed" // a hash of the key, the same for as long as the process runs
	LogRefusalsKeys   = "keys"   // the key itself
)

const (
	sampleEvery  = 10 * time.Second // minimum time between two lines for a key
	sampleLines  = 10               // maximum number of lines per second
	maxLoggedKey = 256              // maximum bytes of a key: enough to recognise it
)

// keyLog logs samples of the refusals and of the keys that are near a limit. Each line has the number of events left out before it, so
// that lines and numbers add up to all of them. It is safe for concurrent use.
type keyLog struct {
	log    *slog.Logger
	mode   string // of the refusals; if empty, none is logged
	secret []byte // keys the hashes: otherwise, an address could be found by hashing all addresses
	limits func(policy, key string) []slidegate.Limit

	refusals, crossings sample
}

func newKeyLog(mode string, log *slog.Logger, limits func(policy, key string) []slidegate.Limit) *keyLog {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return &keyLog{log: log, mode: mode, secret: secret, limits: limits}
}

// refused logs a refusal, or counts it as left out.
func (r *keyLog) refused(refusal gate.Refusal) {
	if r.mode == "" {
		return
	}
	key := loggedKey(refusal.Key)
	omitted, ok := r.refusals.admit(sampledName{policy: refusal.Policy, key: key})
	if !ok {
		return
	}
	attrs := []any{slog.String("policy", refusal.Policy), r.keyAttr(key)}
	if refusal.Rule != "" {
		attrs = append(attrs, slog.String("rule", refusal.Rule))
	}
	if refusal.Shadow {
		attrs = append(attrs, slog.Bool("shadow", true))
	}
	if refusal.By == policy.ByLimits {
		applying := []slidegate.Limit{refusal.Limit}
		if refusal.Rule == "" {
			applying = r.limits(refusal.Policy, key)
		}
		var limits []string
		for _, limit := range applying {
			limits = append(limits, limit.String())
		}
		attrs = append(attrs, slog.String("limits", strings.Join(limits, ", ")))
	}
	r.log.Info("refused", append(attrs, slog.Int64("left_out", omitted))...)
}

// crossed logs that a key is near a limit, or counts it as left out.
func (r *keyLog) crossed(c gate.Crossing) {
	key, threshold := loggedKey(c.Key), strconv.Itoa(c.Percent)+"%"
	if omitted, ok := r.crossings.admit(sampledName{c.Policy, key, c.Limit, threshold}); ok {
		r.log.Info("near a limit", slog.String("policy", c.Policy), r.keyAttr(key), slog.String("limit", c.Limit),
			slog.String("threshold", threshold), slog.Int64("left_out", omitted))
	}
}

func loggedKey(key string) string { return key[:min(len(key), maxLoggedKey)] }

// keyAttr returns how a key is logged.
func (r *keyLog) keyAttr(key string) slog.Attr {
	if r.mode == LogRefusalsKeys {
		return slog.String("key", key)
	}
	return slog.String("key_hash", r.hash(key))
}

func (r *keyLog) hash(key string) string {
	sum := hmac.New(sha256.New, r.secret)
	sum.Write([]byte(key))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// close logs how many events were left out since the last lines.
func (r *keyLog) close() {
	if omitted := r.refusals.rest(); omitted > 0 {
		r.log.Info("refused: the rest", slog.Int64("left_out", omitted))
	}
	if omitted := r.crossings.rest(); omitted > 0 {
		r.log.Info("near a limit: the rest", slog.Int64("left_out", omitted))
	}
}

// sample decides which events are logged. The zero value is ready to use.
type sample struct {
	mu      sync.Mutex
	second  time.Time // start of the current second
	lines   int       // logged in the current second
	recent  map[sampledName]time.Time
	omitted int64
}

// sampledName is what events have in common of which one is logged.
type sampledName struct{ policy, key, limit, threshold string }

// admit reports whether an event is logged, and how many were left out before it.
func (s *sample) admit(name sampledName) (omitted int64, ok bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recent == nil {
		s.recent = map[sampledName]time.Time{}
	}
	if now.Sub(s.second) >= time.Second {
		s.second, s.lines = now, 0
		for name, last := range s.recent { // bounded: at most the lines of sampleEvery
			if now.Sub(last) >= sampleEvery {
				delete(s.recent, name)
			}
		}
	}
	last, known := s.recent[name]
	if known && now.Sub(last) < sampleEvery || s.lines == sampleLines {
		s.omitted++
		return 0, false
	}
	s.lines++
	name.key = strings.Clone(name.key) // the caller may reuse its memory
	s.recent[name] = now
	omitted, s.omitted = s.omitted, 0
	return omitted, true
}

// rest returns how many events were left out since the last line.
func (s *sample) rest() (omitted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	omitted, s.omitted = s.omitted, 0
	return omitted
}
