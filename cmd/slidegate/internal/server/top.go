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
	maxTopKeys    = 1000 // how many keys are remembered
	maxTopKeySize = 256  // how many bytes of a key are kept: enough to recognise it by
)

// refusedKey is a key that was refused.
type refusedKey struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`            // its first 256 bytes; of a descriptor of Envoy, its text
	Rule   string `json:"rule,omitempty"` // of Envoy, that refused it last: its name, or its path of keys
	// Refused is how often, and TooMany by how much that may be too high: what was counted for keys that had to make way.
	Refused int64     `json:"refused"`
	TooMany int64     `json:"too_many"`
	Last    time.Time `json:"last"`
	Limits  []string  `json:"limits"` // that the key faces now; empty if it faces none any more
}

// topKeys remembers which keys were refused the most, in bounded memory, for an operator who asks which clients are
// refused. It is a sketch: a key that was refused often is surely in it, and its count is too high by at most TooMany.
// It is safe for concurrent use. The zero value is empty and ready.
type topKeys struct {
	mu    sync.Mutex
	known map[topName]*topEntry
	least topHeap
}

type topName struct{ policy, key string }

type topEntry struct {
	refusedKey
	at int // in the heap
}

// add counts a refusal, of an Envoy rule if one is named. When there is no room for a new key, it takes the place and the count of the one that was
// refused the least, so that no key that is refused again and again is overlooked.
func (t *topKeys) add(policy, key, rule string) {
	if len(key) > maxTopKeySize {
		key = key[:maxTopKeySize]
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.known[topName{policy, key}]
	switch {
	case p != nil:
	case len(t.least) < maxTopKeys:
		key = strings.Clone(key) // the caller's may change
		if t.known == nil {
			t.known = make(map[topName]*topEntry, maxTopKeys)
		}
		p = &topEntry{refusedKey: refusedKey{Policy: policy, Key: key}}
		t.known[topName{policy, key}] = p
		heap.Push(&t.least, p)
	default:
		key = strings.Clone(key)
		p = t.least[0]
		delete(t.known, topName{p.Policy, p.Key})
		p.Policy, p.Key, p.TooMany = policy, key, p.Refused
		t.known[topName{policy, key}] = p
	}
	p.Refused++
	p.Last, p.Rule = now, rule
	heap.Fix(&t.least, p.at)
}

// list returns the n keys that were refused the most, the worst first.
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

// topHeap is a heap with the least refused key on top.
type topHeap []*topEntry

func (h topHeap) Len() int           { return len(h) }
func (h topHeap) Less(i, j int) bool { return h[i].Refused < h[j].Refused }
func (h topHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

// Push is for package heap.
func (h *topHeap) Push(x any) {
	p := x.(*topEntry)
	p.at = len(*h)
	*h = append(*h, p)
}

// Pop is for package heap.
func (h *topHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// listTop answers GET /v1/top?n=20: the keys that were refused the most.
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
