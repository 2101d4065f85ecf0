package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// visit is a logged request.
type visit struct {
	at                              time.Time
	address, method, host, uri, key string
}

// The gate of the service and a replay of the log decide every request alike, whatever the policies of the file contain.
func TestReplayDecidesAsTheGate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawFile(t)
		file, err := config.Parse("slidegate.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		visits := drawVisits(t)
		live, applied := gateDecisions(t, file, visits)
		found, source, replayed := replayLog(t, file, visits)
		var admitted, refused int64
		for i, allowed := range live {
			switch {
			case !applied[i]:
			case allowed:
				admitted++
			default:
				refused++
			}
		}
		if source.Unreadable > 0 || found.Outcome.Admitted != admitted || found.Outcome.Refused != refused {
			t.Fatalf("got %d admitted and %d refused by the replay, want %d and %d as by the gate; unreadable: %v\n%s",
				found.Outcome.Admitted, found.Outcome.Refused, admitted, refused, source.Examples, text)
		}
		next := 0
		for i, allowed := range live {
			if !applied[i] {
				continue
			}
			if replayed[next] != allowed {
				t.Fatalf("request %d, %+v: got %v from the replay, want %v as from the gate\n%s", i, visits[i], replayed[next], allowed, text)
			}
			next++
		}
		if int64(len(visits)-next) != source.Unmatched {
			t.Fatalf("got %d requests without a policy in the replay, want %d as in the gate\n%s", source.Unmatched, len(visits)-next, text)
		}
	})
}

// gateDecisions decides requests by the gate of the service, and returns which are admitted, and to which a policy applies.
func gateDecisions(t *rapid.T, file *config.File, visits []visit) (allowed, applied []bool) {
	var now time.Time
	store, err := memstore.New(memstore.Options{Now: func() rule.Micros { return rule.Micros(now.UnixMicro()) }})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(file, store, gate.Options{Requests: true})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, v := range visits {
		target, err := url.ParseRequestURI(v.uri)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Method: v.method, URL: target, Host: v.host, RemoteAddr: v.address + ":1234", Header: http.Header{}}
		if strings.Contains(v.address, ":") {
			r.RemoteAddr = "[" + v.address + "]:1234"
		}
		if v.key != "" {
			r.Header.Set("X-Api-Key", v.key)
		}
		now = v.at
		verdict, err := g.CheckRequest(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		allowed = append(allowed, verdict.Decision.Allowed)
		applied = append(applied, verdict.Policy != "")
	}
	return allowed, applied
}

// replayLog writes a log of the requests and replays it.
func replayLog(t *rapid.T, file *config.File, visits []visit) (*replay.Findings, traffic.Source, []bool) {
	var log bytes.Buffer
	for _, v := range visits {
		headers := map[string][]string{}
		if v.key != "" {
			headers["X-Api-Key"] = []string{v.key}
		}
		line, err := json.Marshal(map[string]any{"ts": json.Number(fmt.Sprintf("%d.%06d", v.at.Unix(), v.at.Nanosecond()/1000)), "status": 200,
			"request": map[string]any{"client_ip": v.address, "method": v.method, "host": v.host, "uri": v.uri, "headers": headers}})
		if err != nil {
			t.Fatal(err)
		}
		log.Write(append(line, '\n'))
	}
	policies, err := routing.New(file, "")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := traffic.NewReader("access.log", &log, traffic.Options{Format: "caddy", Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	var decisions bytes.Buffer
	compare := rapid.Bool().Draw(t, "compare")
	found, err := replay.Run(context.Background(), reader, replay.Options{
		Groups: policies.Groups(), Top: 5, Sort: 10 * time.Second, Decisions: &decisions, Compare: compare,
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == nil {
		found = &replay.Findings{}
	}
	var replayed []bool
	for text := range strings.Lines(decisions.String()) {
		var decision struct{ Allowed bool }
		if err := json.Unmarshal([]byte(text), &decision); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		replayed = append(replayed, decision.Allowed)
	}
	return found, reader.Source(), replayed
}

func drawVisits(t *rapid.T) (visits []visit) {
	at := time.UnixMicro(1767571200_000000)
	for range rapid.IntRange(1, 60).Draw(t, "requests") {
		at = at.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 900, 7_000, 25_000, 61_000, 36_000_000}).Draw(t, "ms")) * time.Millisecond)
		visits = append(visits, visit{
			at: at,
			address: rapid.SampledFrom([]string{"203.0.113.7", "203.0.113.8", "10.0.0.9", "2001:db8::1", "2001:db8::2", "::ffff:203.0.113.7", "64:ff9b::203.0.113.7", "2002:cb00:7107::1"}).
				Draw(t, "address"),
			method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"),
			host:   rapid.SampledFrom([]string{"shop.example", "SHOP.example.:8080", "api.example", "api.example:80"}).Draw(t, "host"),
			uri: rapid.SampledFrom([]string{"/", "/login", "//login", "/%6cogin?next=1", "/api/users", "/api/../login", "/api/a%2Fb", "/other"}).
				Draw(t, "uri"),
			key: rapid.SampledFrom([]string{"alice", "bob", "team-1", ""}).Draw(t, "key"),
		})
	}
	return visits
}

// drawFile draws policies with everything that a policy can contain.
func drawFile(t *rapid.T) string {
	var b strings.Builder
	b.WriteString(rapid.SampledFrom([]string{"", "address_groups: {ipv4: 24, ipv6: 128}\n"}).Draw(t, "groups"))
	b.WriteString("policies:\n")
	several := rapid.IntRange(1, 3).Draw(t, "policies")
	for i := range several {
		fmt.Fprintf(&b, "  p%d:\n", i)
		if match := rapid.SampledFrom([]string{"", "/login", "POST /login", "/api/", "shop.example/", "GET api.example/api/{name}"}).Draw(t, "match"); match != "" {
			fmt.Fprintf(&b, "    match: %q\n", match)
		} else if rapid.Bool().Draw(t, "several costs") { // an exempt path, and one that is only checked
			b.WriteString("    match: [/, {path: /login, cost: 0}, {path: /api/, unlimited: true}]\n")
		}
		one, other := "203.0.113.7", "198.51.100.1"
		if strings.Contains(b.String(), "ipv4: 24") {
			one, other = "203.0.113.0/24", "198.51.100.0/24"
		}
		key := rapid.SampledFrom([]struct{ template, one, other string }{
			{"{address}", one, other}, {"{header:X-Api-Key}", "alice", "bob"}, {"{address} {path}", one + " /login", other + " /"},
			{"{host}", "h.example", "www.example"}, {"{method} {header:X-Api-Key}", "GET alice", "POST bob"}, {"{path}", "/login", "/api/x"}}).Draw(t, "key")
		fmt.Fprintf(&b, "    key: %q\n", key.template)
		limits, costs := drawLimits(t), []int{1, 1, 1, 2, 0}
		if strings.Contains(" "+limits, " 1/") { // a cost that a limit never admits is an error
			costs = []int{1, 1, 1, 0}
		}
		fmt.Fprintf(&b, "    cost: %d\n    limits: [%s]\n", rapid.SampledFrom(costs).Draw(t, "cost"), limits)
		var overrides []string
		if rapid.Bool().Draw(t, "override") {
			overrides = append(overrides, fmt.Sprintf("{key: %q, limits: [%s]}", key.one, drawLimits(t)))
		}
		if rapid.Bool().Draw(t, "pattern") {
			overrides = append(overrides, rapid.SampledFrom([]string{
				"{keys: '*a*', unlimited: true}", fmt.Sprintf("{keys: '*203.*', limits: [%s]}", drawLimits(t))}).Draw(t, "of pattern"))
		}
		if len(overrides) > 0 {
			fmt.Fprintf(&b, "    overrides: [%s]\n", strings.Join(overrides, ", "))
		}
		for _, list := range []string{"allow", "block"} {
			if entry := rapid.SampledFrom([]string{"", "", "10.0.0.0/8", "'key:" + key.other + "'", "'2001:db8::/32'", "'key:*a*'"}).Draw(t, list); entry != "" {
				fmt.Fprintf(&b, "    %s: [%s]\n", list, entry)
			}
		}
		if several > 1 && rapid.IntRange(0, 3).Draw(t, "shadow") == 0 {
			b.WriteString("    shadow: true\n")
		}
	}
	return b.String()
}

func drawLimits(t *rapid.T) string {
	first := rapid.SampledFrom([]string{
		"2/1m", "100/1m", "150/1m", "2/1m sliding-window", "3/day zone=Europe/Berlin", "4/month zone=America/St_Johns", "2/1m overlap=up", "3/1m fixed-window", "1/10s sliding-log", "4/1m token-bucket", "3/1m count-refused", "2/30s segments=3", "3/1m sliding-log count-refused",
	}).Draw(t, "limit")
	if rapid.Bool().Draw(t, "two") {
		return first + ", 5/1h"
	}
	return first
}
