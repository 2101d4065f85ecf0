package page_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/page"
)

type object = map[string]any

// fake is an admin listener that serves documents of the admin API as tests need them. What it knows is guarded by mu.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	role     string // "" means that any request is accepted without a token
	seen     object
	limits   []object            // of every key
	plans    map[string][]object // of every key under a plan
	prefix   bool                // every key is a prefix
	notSeen  bool                // no key was seen
	cut      bool                // every key is too long to be kept
	revoked  bool                // streams end, since their token is no longer valid
	ruling   object
	history  []object
	keys     map[string]string // whole keys by id
	requests []string          // that change something, or ask for a key: path and body
	tokens   []string          // the Authorization headers that were sent
	reset    bool
	began    time.Time
	streams  bool
	watchers int  // open streams
	away     bool // no state can be read
}

const token = "a token of an operator"

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{keys: map[string]string{}, began: time.Now(), streams: true}
	f.seen, f.limits = sample(f.keys), sampleLimits()
	f.history = []object{{"policy": "api", "key": "an", "kind": "reset", "at": "2026-01-02T02:41:07Z", "who": "ann", "why": "support case 4711"}}
	mux := http.NewServeMux()
	page.Routes(mux, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "text") })
	api := http.NewServeMux()
	api.HandleFunc("GET /v1/whoami", func(w http.ResponseWriter, _ *http.Request) {
		if f.role == "" {
			send(w, object{"name": "", "role": "operator"})
			return
		}
		send(w, object{"name": "ann", "role": f.role})
	})
	api.HandleFunc("GET /v1/seen", func(w http.ResponseWriter, _ *http.Request) { send(w, f.seen) })
	api.HandleFunc("GET /v1/seen/stream", f.stream)
	api.HandleFunc("POST /v1/seen/key", func(w http.ResponseWriter, r *http.Request) {
		body := f.note(r)
		send(w, object{"key": f.keys[body["id"].(string)], "cut": f.cut})
	})
	api.HandleFunc("GET /v1/state", f.state)
	api.HandleFunc("POST /v1/rulings", f.add)
	api.HandleFunc("POST /v1/rulings/clear", func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		f.ruling = nil
		send(w, object{"ended": object{}})
	})
	api.HandleFunc("POST /v1/reset", func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		f.reset = true
		w.WriteHeader(http.StatusNoContent)
	})
	mux.Handle("/v1/", f.guard(api))
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

// guard requires the token, if there is a role, and holds mu.
func (f *fake) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.tokens = append(f.tokens, r.Header.Get("Authorization"))
		switch looks := r.Method == http.MethodGet || r.URL.Path == "/v1/seen/key"; {
		case f.role != "" && r.Header.Get("Authorization") != "Bearer "+token:
			problem(w, http.StatusUnauthorized, "the token is not valid here; an admin token is required")
		case f.role == "viewer" && !looks:
			problem(w, http.StatusForbidden, "this requires the role operator")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func send(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"status": status, "detail": detail})
}

// note records a change and returns its body.
func (f *fake) note(r *http.Request) object {
	var body object
	_ = json.NewDecoder(r.Body).Decode(&body)
	text, _ := json.Marshal(body)
	f.requests = append(f.requests, r.URL.Path+" "+string(text))
	return body
}

// add puts a ruling in force.
func (f *fake) add(w http.ResponseWriter, r *http.Request) {
	f.ruling = f.note(r)
	f.ruling["who"], f.ruling["at"] = "ann", time.Now().UTC().Format(time.RFC3339)
	if f.ruling["for"] != nil {
		f.ruling["until"] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	}
	f.history = append([]object{maps.Clone(f.ruling)}, f.history...)
	reach := object{"ruling": f.ruling}
	if f.notSeen {
		reach["seen"] = []string{}
	}
	send(w, reach)
}

// stream sends the document again and again. It holds mu only while it reads.
func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	f.watchers++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.watchers--
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		f.mu.Lock()
		text, _ := json.Marshal(f.seen)
		if !f.streams {
			text = nil
		}
		revoked := f.revoked
		f.mu.Unlock()
		if revoked {
			fmt.Fprint(w, "event: problem\ndata: {\"status\":401,\"detail\":\"the token is no longer valid\"}\n\n")
			f.change(func() { f.role = "operator" })
			return
		}
		if text != nil {
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// state serves the limits of a key, with times that have moved on since the test began, as those of a key without requests do.
func (f *fake) state(w http.ResponseWriter, r *http.Request) {
	if f.away {
		problem(w, http.StatusServiceUnavailable, "the store does not answer")
		return
	}
	limits := []object{}
	of, planned := f.plans[r.URL.Query().Get("plan")]
	if !planned {
		of = f.limits
	}
	if f.prefix || f.ruling["kind"] == "block" {
		of = nil
	}
	for _, one := range of {
		one = maps.Clone(one)
		now := time.Now().UnixMicro()
		one["now"] = now
		var units []object
		used := int64(0)
		for _, unit := range one["units"].([]object) {
			unit = maps.Clone(unit)
			for _, name := range []string{"from", "to", "frees"} {
				unit[name] = f.began.UnixMicro() + unit[name].(int64)
			}
			if unit["frees"].(int64) > now && !f.reset {
				units, used = append(units, unit), used+unit["units"].(int64)
			}
		}
		if f.ruling != nil && f.ruling["kind"] == "limits" {
			one["text"] = f.ruling["limits"].([]any)[0]
			one["quota"] = int64(200)
		}
		whole, isBucket := one["capacity"].(int64)
		if !isBucket {
			whole = one["quota"].(int64)
		} else if used > 0 { // it fills all the time
			used = max(0, used-used*(now-f.began.UnixMicro())/(units[0]["frees"].(int64)-f.began.UnixMicro()))
			units[0]["units"] = used
		}
		for _, held := range one["holds"].([]object) {
			used += held["units"].(int64)
		}
		one["units"], one["used"], one["remaining"] = units, used, whole-used
		if used >= one["quota"].(int64) {
			one["retry_after_us"] = units[0]["frees"].(int64) - now
		}
		limits = append(limits, one)
	}
	send(w, object{"policy": r.URL.Query().Get("policy"), "key": r.URL.Query().Get("key"), "limits": limits, "ruling": f.ruling, "plan": "team", "history": f.history, "prefix": f.prefix, "by": map[bool]string{true: "ruling", false: "limits"}[f.ruling != nil]})
}

// lastRequest returns the last change.
func (f *fake) lastRequest() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.requests) == 0 {
		return ""
	}
	return f.requests[len(f.requests)-1]
}

// change changes what is served.
func (f *fake) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
}

// open returns how many streams are open.
func (f *fake) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watchers
}

// sentTokens returns the different Authorization headers that were sent.
func (f *fake) sentTokens() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(f.tokens)))
}

// sample is a document of three instances and four policies, of which api refuses one key most.
func sample(keys map[string]string) object {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	policies := []object{}
	for n, p := range []struct {
		name, limit    string
		level          float64
		refused        func(minute int) float64
		shadow, outage bool
	}{
		{"api", "100/1m", 610, func(m int) float64 { return 4 + 190*math.Exp(-math.Pow(float64(m-57)/6, 2)) }, false, true},
		{"login", "5/1m", 42, func(m int) float64 { return 2 + 9*math.Abs(math.Sin(float64(m)/9)) }, false, false},
		{"search", "20/1s", 260, func(int) float64 { return 0 }, true, false},
		{"webhooks", "10000/1h", 152, func(int) float64 { return 0 }, false, false},
	} {
		minutes := []object{}
		for m := range 60 {
			wave := 1 + .22*math.Sin(float64(m)/7+float64(n)) + .06*math.Sin(float64(m*m))
			one := object{"at": now.Truncate(time.Minute).Add(time.Duration(m-59) * time.Minute), "admitted": int(p.level * wave), "refused": int(p.refused(m)), "shadow_refused": 0, "without_store": 0}
			if p.shadow {
				one["shadow_refused"] = int(24 + 18*math.Sin(float64(m)/5))
			}
			if p.outage && m > 18 && m < 23 {
				one["without_store"] = int(p.level * wave)
			}
			minutes = append(minutes, one)
		}
		one := object{"name": p.name, "shadow": p.shadow, "limits": []string{p.limit}, "minutes": minutes}
		if p.name == "webhooks" {
			one["leases_out"], one["holds_out"], one["waiting"] = 120, 5, 17
		}
		policies = append(policies, one)
	}
	instances := []object{}
	for n, name := range []string{"web1:4121", "web2:4090", "web3:3877"} {
		instances = append(instances, object{
			"id": fmt.Sprint("i", n), "name": name, "version": "v0.1.0", "config": "9c1e7ab04d52", "started": now.Add(-31 * time.Hour), "seen": now.Add(time.Duration(-70*(n/2)) * time.Second),
			"alive": n < 2, "health": "ready", "restart_needed": []string{}, "store": "redis", "without_store": false,
			"latency_ms": object{"p50": .38 + .04*float64(n), "p99": 2.1 + float64(n)}, "leases_out": 120 * n, "holds_out": 3 - n,
		})
	}
	return object{
		"now": now, "self": "i0", "scope": "all", "why": "", "instances": instances, "policies": policies,
		"keys": object{"1": sampleKeys(keys, 1), "5": sampleKeys(keys, 5), "60": sampleKeys(keys, 7)},
	}
}

func sampleKeys(whole map[string]string, times int) object {
	var refused, nearest []object
	for n, k := range []struct {
		policy, key, by, limit, route string
		admitted, refused             int
		share                         float64
	}{
		{"api", "acme-batch-export", "limits", "100/1m", "GET /v1/orders", 97, 142, 1},
		{"api", "203.0.113.77", "limits", "100/1m", "POST /v1/search", 84, 31, .98},
		{"api", "203.0.113.9", "ruling", "", "GET /v1/items", 0, 6, 0},
		{"login", "alice@example.com", "penalty", "5/1m", "POST /login", 5, 4, 1},
		{"api", "mobile-4.2.1", "limits", "100/1m", "GET /v1/feed", 88, 3, 1},
		{"login", "bob@example.com", "limits", "5/1m", "POST /login", 5, 2, 1},
		{"api", "198.51.100.4", "block_list", "", "GET /v1/items", 0, 1, 0},
		{"search", "crawler-7", "limits", "20/1s", "GET /search", 3, 18, 1},
		{"api", "tenant-northwind", "", "100/1m", "GET /v1/items", 96, 0, .96},
		{"api", "203.0.113.80", "", "100/1m", "GET /v1/items", 91, 0, .91},
		{"webhooks", "stripe-events", "", "10000/1h", "POST /hooks", 143, 0, .86},
		{"api", "tenant-harbour", "", "100/1m", "GET /v1/orders", 84, 0, .84},
		{"search", "warehouse-sync", "", "20/1s", "GET /search", 88, 0, .8},
	} {
		id := fmt.Sprintf("%04x000000000000", 0x9f2c+977*n)
		whole[id] = k.key
		key := object{
			"policy": k.policy, "id": id, "masked": k.key[:2] + "…" + k.key[len(k.key)-1:], "admitted": times * k.admitted, "refused": times * k.refused, "at_least": k.key == "bob@example.com",
			"by": k.by, "limit": k.limit, "share": k.share, "routes": []string{k.route}, "instances": []string{"i0", "i1"}, "shadow": k.policy == "search", "shadow_refused": 0, "causes": []object{},
			"plan": "", "cut": false,
		}
		if k.policy == "search" {
			key["shadow_refused"] = times * k.refused
		}
		switch {
		case n == 0: // an operator has blocked it for a moment
			key["causes"] = []object{{"by": k.by, "limit": k.limit, "refused": times * (k.refused - 12)}, {"by": "ruling", "limit": "", "refused": times * 12}}
		case k.refused > 0:
			key["causes"] = []object{{"by": k.by, "limit": k.limit, "shadow": key["shadow"], "refused": times * k.refused}}
		}
		if k.refused > 0 {
			refused = append(refused, key)
		}
		if k.refused == 0 {
			nearest = append(nearest, key)
		}
	}
	slices.SortStableFunc(nearest, func(a, b object) int { return int(1000 * (b["share"].(float64) - a["share"].(float64))) })
	return object{"refused": refused, "nearest": nearest}
}

// sampleLimits are a full log and a window of parts; times are in microseconds since the test began.
func sampleLimits() []object {
	var stamps, parts []object
	for n := range 100 {
		at := int64(float64(-59_500_000) + 58_000_000*math.Pow(float64(n)/100, 1.3) + 700_000*math.Sin(float64(n)))
		stamps = append(stamps, object{"from": at, "to": at, "units": int64(1), "frees": at + 60_000_000})
	}
	slices.SortFunc(stamps, func(a, b object) int { return int(a["frees"].(int64) - b["frees"].(int64)) })
	const part = 60_000_000
	for n := range 60 {
		at := int64(n-59)*part - 25_000_000
		parts = append(parts, object{"from": at, "to": at + part, "units": int64(30 + 22*math.Sin(float64(n)/6)), "frees": at + 61*part})
	}
	return []object{
		{"text": "100/1m", "name": "", "quota": int64(100), "algorithm": "hard cap", "window_us": 60_000_000, "form": "log", "units": stamps, "holds": []object{}, "retry_after_us": 0},
		{"text": "5000/1h", "name": "hourly", "quota": int64(5000), "algorithm": "hard cap", "window_us": 3_600_000_000, "form": "parts", "units": parts, "holds": []object{}, "retry_after_us": 0},
	}
}

// hostile are keys and names that try to be more than text.
var hostile = []string{
	`<img src=x onerror="window.pwned=1">`, `"><script>window.pwned=1</script>`, "a\x00b\x1b[31mred\r\nGET /", "\u202eevil\u202c txt.exe", "مفتاح العميل", "\u200f\u2066x\u2069",
	strings.Repeat("long🔑", 500), "javascript:alert(1)", "${pwned=1}",
}
