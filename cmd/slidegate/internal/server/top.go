package server

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
)

const (
	maxTopKeys    = 1000 // maximum number of keys
	maxTopKeySize = 256  // maximum bytes kept of a key: enough to recognise it
)

// refusedKey is an entry of /v1/top.
type refusedKey struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`            // its first 256 bytes; the text of an Envoy descriptor
	Rule   string `json:"rule,omitempty"` // the Envoy rule that refused it last: its name, or its path of keys
	// Refused is the number of refusals. It may be too high by up to TooMany, the count inherited from evicted keys.
	Refused int64     `json:"refused"`
	TooMany int64     `json:"too_many"`
	Last    time.Time `json:"last"`
	Limits  []string  `json:"limits"` // the limits that apply to the key now; empty if none do any more
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
	refusedKey
	at int // index in the heap
}

// add counts a refusal, by an Envoy rule if rule is set. When the sketch is full, a new key takes the place and the count of the
// least refused key, so that no key that is refused repeatedly is missed.
func (t *topKeys) add(policy, key, rule string) {
	if len(key) > maxTopKeySize {
		key = key[:maxTopKeySize]
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.entries[topName{policy, key}]
	switch {
	case p != nil:
	case len(t.least) < maxTopKeys:
		key = strings.Clone(key) // the caller may reuse its memory
		if t.entries == nil {
			t.entries = make(map[topName]*topEntry, maxTopKeys)
		}
		p = &topEntry{refusedKey: refusedKey{Policy: policy, Key: key}}
		t.entries[topName{policy, key}] = p
		heap.Push(&t.least, p)
	default:
		key = strings.Clone(key)
		p = t.least[0]
		delete(t.entries, topName{p.Policy, p.Key})
		p.Policy, p.Key, p.TooMany = policy, key, p.Refused
		t.entries[topName{policy, key}] = p
	}
	p.Refused++
	p.Last, p.Rule = now, rule
	heap.Fix(&t.least, p.at)
}

// list returns the n most refused keys, most refused first.
func (t *topKeys) list(n int) []refusedKey {
	t.mu.Lock()
	all := make([]refusedKey, 0, len(t.least))
	for _, p := range t.least {
		all = append(all, p.refusedKey)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b refusedKey) int {
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
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	keys := s.top.list(n)
	for i := range keys {
		keys[i].Limits = []string{}
		for _, limit := range s.limitsOf(keys[i].Policy, keys[i].Key) {
			keys[i].Limits = append(keys[i].Limits, limit.String())
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys}) // the client may be gone
}
