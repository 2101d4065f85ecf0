package service

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
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
)

// How keys appear in the log of refusals. Keys are personal data: they are never logged by default.
const (
	LogRefusalsHashed = "hashed" // a hash of the key, the same for as long as the process runs
	LogRefusalsKeys   = "keys"   // the key itself
)

const (
	refusalEvery = 10 * time.Second // minimum time between two lines for a key
	refusalLines = 10               // maximum number of lines per second
	maxLoggedKey = 256              // maximum bytes of a key: enough to recognise it
)

type refusedName struct{ policy, key string }

// refusalLog logs a sample of the refusals. Each line has the number of refusals left out before it, so that lines and numbers add
// up to all refusals. It is safe for concurrent use; nil logs nothing.
type refusalLog struct {
	log    *slog.Logger
	plain  bool
	secret []byte // keys the hashes: otherwise, an address could be found by hashing all addresses
	limits func(policy, key string) []slidegate.Limit

	mu      sync.Mutex
	second  time.Time // start of the current second
	lines   int       // logged in the current second
	recent  map[refusedName]time.Time
	omitted int64
}

func newRefusalLog(mode string, log *slog.Logger, limits func(policy, key string) []slidegate.Limit) *refusalLog {
	if mode == "" {
		return nil
	}
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return &refusalLog{log: log, plain: mode == LogRefusalsKeys, secret: secret, limits: limits, recent: map[refusedName]time.Time{}}
}

// add logs a refusal, or counts it as left out.
func (r *refusalLog) add(refusal gate.Refusal) {
	if r == nil {
		return
	}
	key := refusal.Key[:min(len(refusal.Key), maxLoggedKey)]
	omitted, ok := r.admit(refusedName{refusal.Policy, key})
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
		limits := []slidegate.Limit{refusal.Limit}
		if refusal.Rule == "" {
			limits = r.limits(refusal.Policy, key)
		}
		var texts []string
		for _, limit := range limits {
			texts = append(texts, limit.String())
		}
		attrs = append(attrs, slog.String("limits", strings.Join(texts, ", ")))
	}
	r.log.Info("refused", append(attrs, slog.Int64("left_out", omitted))...)
}

// keyAttr returns how a key is logged.
func (r *refusalLog) keyAttr(key string) slog.Attr {
	key = key[:min(len(key), maxLoggedKey)]
	if r.plain {
		return slog.String("key", key)
	}
	return slog.String("key_hash", r.hash(key))
}

// admit reports whether a refusal is logged, and how many were left out before it.
func (r *refusalLog) admit(name refusedName) (omitted int64, ok bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.second) >= time.Second {
		r.second, r.lines = now, 0
		for name, last := range r.recent { // bounded: at most the lines of refusalEvery
			if now.Sub(last) >= refusalEvery {
				delete(r.recent, name)
			}
		}
	}
	last, known := r.recent[name]
	if known && now.Sub(last) < refusalEvery || r.lines == refusalLines {
		r.omitted++
		return 0, false
	}
	r.lines++
	name.key = strings.Clone(name.key) // the caller may reuse its memory
	r.recent[name] = now
	omitted, r.omitted = r.omitted, 0
	return omitted, true
}

func (r *refusalLog) hash(key string) string {
	sum := hmac.New(sha256.New, r.secret)
	sum.Write([]byte(key))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// close logs how many refusals were left out since the last line.
func (r *refusalLog) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.omitted > 0 {
		r.log.Info("refused: the rest", slog.Int64("left_out", r.omitted))
		r.omitted = 0
	}
}
