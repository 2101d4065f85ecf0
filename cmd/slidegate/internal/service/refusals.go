package service

import (
	"cmp"
	"container/heap"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
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
)

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
	recent  map[topName]time.Time
	omitted int64
}

func newRefusalLog(mode string, log *slog.Logger, limits func(policy, key string) []slidegate.Limit) *refusalLog {
	if mode == "" {
		return nil
	}
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return &refusalLog{log: log, plain: mode == LogRefusalsKeys, secret: secret, limits: limits, recent: map[topName]time.Time{}}
}

// add logs a refusal, or counts it as left out.
func (r *refusalLog) add(refusal gate.Refusal) {
	if r == nil {
		return
	}
	key := refusal.Key[:min(len(refusal.Key), maxTopKeySize)]
	omitted, ok := r.admit(topName{refusal.Policy, key})
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
		var limits []string
		for _, limit := range r.limits(refusal.Policy, key) {
			limits = append(limits, limit.String())
		}
		attrs = append(attrs, slog.String("limits", strings.Join(limits, ", ")))
	}
	r.log.Info("refused", append(attrs, slog.Int64("left_out", omitted))...)
}

// keyAttr returns how a key is logged.
func (r *refusalLog) keyAttr(key string) slog.Attr {
	key = key[:min(len(key), maxTopKeySize)]
	if r.plain {
		return slog.String("key", key)
	}
	return slog.String("key_hash", r.hash(key))
}

// admit reports whether a refusal is logged, and how many were left out before it.
func (r *refusalLog) admit(name topName) (omitted int64, ok bool) {
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

// refused records a refusal.
func (s *Server) refused(r gate.Refusal) {
	s.top.add(r)
	s.refusals.add(r)
}

const (
	maxTopKeys    = 1000 // maximum number of keys
	maxTopKeySize = 256  // maximum bytes kept of a key: enough to recognise it
)

// RefusedKey is an entry of /v1/top.
type RefusedKey struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`            // its first 256 bytes; the text of an Envoy descriptor
	Rule   string `json:"rule,omitempty"` // the Envoy rule that refused it last: its name, or its path of keys
	// Refused is the number of refusals. It may be too high by up to TooMany, the count inherited from evicted keys.
	Refused int64     `json:"refused"`
	TooMany int64     `json:"too_many"`
	Last    time.Time `json:"last"`
	Limits  []string  `json:"limits"`           // the limits that apply to the key now; empty if none do any more, or if no limit refused it last
	Shadow  bool      `json:"shadow,omitempty"` // it was last admitted all the same, because of shadow mode

	by policy.By // what refused it last
}

// topKeys tracks the most refused keys in bounded memory, to show operators which clients are refused. It is a sketch: a key that
// was refused often is certainly in it, and its count is too high by at most TooMany. It is safe for concurrent use. The zero
// value is empty and ready to use.
type topKeys struct {
	mu      sync.Mutex
	entries map[topName]*topEntry
	least   topHeap
}

type topName struct{ policy, key string }

type topEntry struct {
	RefusedKey
	at int // index in the heap
}

// add counts a refusal. When the sketch is full, a new key takes the place and the count of the least refused key, so that no
// key that is refused repeatedly is missed.
func (t *topKeys) add(r gate.Refusal) {
	key := r.Key[:min(len(r.Key), maxTopKeySize)]
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.entries[topName{r.Policy, key}]
	switch {
	case p != nil:
	case len(t.least) < maxTopKeys:
		key = strings.Clone(key) // the caller may reuse its memory
		if t.entries == nil {
			t.entries = make(map[topName]*topEntry, maxTopKeys)
		}
		p = &topEntry{RefusedKey: RefusedKey{Policy: r.Policy, Key: key}}
		t.entries[topName{r.Policy, key}] = p
		heap.Push(&t.least, p)
	default:
		key = strings.Clone(key)
		p = t.least[0]
		delete(t.entries, topName{p.Policy, p.Key})
		p.Policy, p.Key, p.TooMany = r.Policy, key, p.Refused
		t.entries[topName{r.Policy, key}] = p
	}
	p.Refused++
	p.Last, p.Rule, p.Shadow, p.by = now, r.Rule, r.Shadow, r.By
	heap.Fix(&t.least, p.at)
}

// list returns the n most refused keys, most refused first.
func (t *topKeys) list(n int) []RefusedKey {
	t.mu.Lock()
	all := make([]RefusedKey, 0, len(t.least))
	for _, p := range t.least {
		all = append(all, p.RefusedKey)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b RefusedKey) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(max(n, 0), len(all))]
}

// find returns the refused keys of a policy that match, most refused first.
func (t *topKeys) find(policy string, matches func(key string) bool) (keys []string) {
	for _, one := range t.list(maxTopKeys) {
		if one.Policy == policy && matches(one.Key) {
			keys = append(keys, one.Key)
		}
	}
	return keys
}

// topHeap is a heap with the least refused key on top.
type topHeap []*topEntry

func (h topHeap) Len() int           { return len(h) }
func (h topHeap) Less(i, j int) bool { return h[i].Refused < h[j].Refused }
func (h topHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push implements heap.Interface.
func (h *topHeap) Push(x any) {
	p := x.(*topEntry)
	p.at = len(*h)
	*h = append(*h, p)
}

// Pop implements heap.Interface.
func (h *topHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// listTop serves GET /v1/top?n=20: the most refused keys.
func (s *Server) listTop(w http.ResponseWriter, r *http.Request) {
	n := 20
	if text := r.URL.Query().Get("n"); text != "" {
		given, err := strconv.Atoi(text)
		if err != nil || given < 1 || given > maxTopKeys {
			problemjson.Document{Status: http.StatusBadRequest, Detail: "n: must be 1 to " + strconv.Itoa(maxTopKeys)}.Send(w)
			return
		}
		n = given
	}
	keys := s.top.list(n)
	for i := range keys {
		keys[i].Limits = []string{}
		if keys[i].by != policy.ByLimits {
			continue
		}
		for _, limit := range s.limitsOf(keys[i].Policy, keys[i].Key) {
			keys[i].Limits = append(keys[i].Limits, limit.String())
		}
	}
	problemjson.SendJSON(w, map[string]any{"keys": keys})
}
