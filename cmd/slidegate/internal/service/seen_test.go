package service_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
)

const seenPolicies = `
policies:
  api: {limits: [3/1h], block: ['key:bad'], match: /api/}
  watched: {limits: [1/1h], shadow: true, match: /watched/}
  site: {limits: [5/1h], match: /site/}
`

// TestSeenOverMemory: everything that an operator asks is in the document, keys are masked, and it says that only this instance is shown.
func TestSeenOverMemory(t *testing.T) {
	log := &servicetest.Log{}
	s := start(t, seenPolicies, func(o *service.Options) {
		o.Logger, o.Version = slog.New(slog.NewTextHandler(log, nil)), "v1.2.3"
		o.AdminTokens = []string{"ann:operator:" + adminToken, "sue:viewer:" + viewerToken}
	})
	viewer := []string{"Authorization", "Bearer " + viewerToken}
	for range 5 {
		s.allow(t, "api", "alice-smith")
	}
	s.allow(t, "api", "bad")
	s.allow(t, "watched", "w")
	s.allow(t, "watched", "w")
	for range 4 {
		s.send(t, "http", "GET", "/v1/check", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/site/a?q=1", "X-Forwarded-For", "192.0.2.77")
	}
	got := s.send(t, "admin", "GET", "/v1/seen", "", viewer...)
	var d seen.Document
	if err := json.Unmarshal([]byte(got.body), &d); err != nil || got.status != http.StatusOK {
		t.Fatalf("got %d %s, %v", got.status, got.body, err)
	}
	if d.Scope != "this" || !strings.Contains(d.Why, "memory") || len(d.Instances) != 1 {
		t.Errorf("got %s %q, want this, because of memory", d.Scope, d.Why)
	}
	if i := d.Instances[0]; i.ID != d.Self || i.Version != "v1.2.3" || i.Store != "memory" || i.Health != "ready" || !i.Alive || i.Config == "" || i.RestartNeeded == nil {
		t.Errorf("got %+v", i)
	}
	if len(d.Policies) != 3 || d.Policies[0].Name != "api" || d.Policies[0].Limits[0] != "3/1h" || !d.Policies[1].Shadow {
		t.Fatalf("got %+v, want the policies in their order", d.Policies)
	}
	sums := map[string]seen.Minute{}
	for _, p := range d.Policies {
		sum := sums[p.Name]
		for _, m := range p.Minutes {
			sum.Admitted, sum.Refused, sum.ShadowRefused = sum.Admitted+m.Admitted, sum.Refused+m.Refused, sum.ShadowRefused+m.ShadowRefused
		}
		sums[p.Name] = sum
	}
	if sums["api"] != (seen.Minute{Admitted: 3, Refused: 3}) || sums["watched"] != (seen.Minute{Admitted: 1, ShadowRefused: 1}) || sums["site"] != (seen.Minute{Admitted: 4}) {
		t.Errorf("got %+v, want what was decided", sums)
	}
	refused, near := d.Keys["5"].Refused, d.Keys["5"].Nearest
	if len(refused) != 3 || refused[0].Masked != "al…h" || refused[0].Refused != 2 || refused[0].Admitted != 3 || refused[0].By != "limits" || refused[0].Limit != "3/1h" || refused[0].AtLeast {
		t.Fatalf("got %+v, want alice first", refused)
	}
	for _, k := range refused[1:] {
		if k.Policy == "api" && k.By != "block_list" || k.Policy == "watched" && !k.Shadow {
			t.Errorf("got %+v, want it by the block list, or in shadow mode", k)
		}
	}
	if len(near) != 1 || near[0].Share != 0.8 || near[0].Limit != "5/1h" || len(near[0].Routes) != 1 || near[0].Routes[0] != "GET /site/a" {
		t.Errorf("got %+v, want one key at 4 of 5, by GET /site/a", near)
	}
	if strings.Contains(got.body, "alice-smith") || strings.Contains(got.body, "192.0.2.77") {
		t.Errorf("a key is in %s", got.body)
	}
	ask := `{"policy":"api","id":"` + refused[0].ID + `"}`
	if got := s.send(t, "admin", "POST", "/v1/seen/key", ask, viewer...); got.status != http.StatusOK || got.body != `{"key":"alice-smith"}`+"\n" {
		t.Errorf("got %d %s, want the key", got.status, got.body)
	}
	if text := log.String(); !strings.Contains(text, `msg="key shown" policy=api key_id=`+refused[0].ID+" who=sue") || strings.Contains(text, "alice") {
		t.Errorf("got %s, want who asked for which ID", text)
	}
	if got := s.send(t, "admin", "POST", "/v1/seen/key", strings.Replace(ask, `"api"`, `"site"`, 1), viewer...); got.status != http.StatusNotFound {
		t.Errorf("of another policy: got %d %s, want 404", got.status, got.body)
	}
	if got := s.send(t, "admin", "POST", "/v1/reset", `{"key":"x"}`, viewer...); got.status != http.StatusForbidden {
		t.Errorf("a reset by a viewer: got %d, want 403", got.status)
	}
}

// TestSeenStream: the stream has the document once a second, and ends when the service drains.
func TestSeenStream(t *testing.T) {
	s := start(t, seenPolicies, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address("admin")+"/v1/seen/stream?n=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if kind := got.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("got %s", kind)
	}
	lines := bufio.NewReader(got.Body)
	event := func() (d seen.Document) {
		line, err := lines.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "data: ") || json.Unmarshal([]byte(line[6:]), &d) != nil {
			t.Fatalf("got %q, %v, want an event", line, err)
		}
		_, _ = lines.ReadString('\n')
		return d
	}
	if d := event(); len(d.Keys["1"].Refused) != 0 {
		t.Errorf("got %+v before any request", d.Keys)
	}
	for range 4 {
		s.allow(t, "api", "alice")
		s.allow(t, "api", "bob")
	}
	for n := 1; len(event().Keys["5"].Refused) == 0; n++ { // a turn may have come before the requests
		if n == 10 {
			t.Fatalf("got %d events without a key", n)
		}
	}
	if d := event(); len(d.Keys["5"].Refused) != 1 { // n is 1
		t.Errorf("got %+v, want one key", d.Keys["5"])
	}
}

// TestStreamsShare: what is sent within a turn of the exchange is made once, also for many pages and other numbers of keys, and anew after the turn.
func TestStreamsShare(t *testing.T) {
	s := start(t, seenPolicies, nil)
	for range 20 {
		turned, first := s.Glance(t, 20)
		s.allow(t, "api", "alice")
		_, other := s.Glance(t, 5)
		_, again := s.Glance(t, 5)
		select {
		case <-turned:
			continue // in between; another try
		default:
		}
		var seenFirst, seenOther seen.Document
		if json.Unmarshal(first, &seenFirst) != nil || json.Unmarshal(other, &seenOther) != nil || !seenFirst.Now.Equal(seenOther.Now) || &other[0] != &again[0] {
			t.Errorf("made at %v and %v, want one document for all numbers of keys, written once for each", seenFirst.Now, seenOther.Now)
		}
		<-turned
		if _, after := s.Glance(t, 5); &after[0] == &again[0] {
			t.Error("after a turn: got what was sent before")
		}
		return
	}
	t.Fatal("every try took longer than a turn")
}

// TestRequestsShare: requests that wait at the same time get one document, which was begun after all of them, and a loop makes only some in a second.
func TestRequestsShare(t *testing.T) {
	s := start(t, seenPolicies, nil)
	var mu sync.Mutex
	times := map[time.Time]bool{}
	began := time.Now()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 10 {
				var d seen.Document
				asked := time.Now()
				got := s.send(t, "admin", "GET", fmt.Sprint("/v1/seen?n=", 1+i), "")
				if err := json.Unmarshal([]byte(got.body), &d); err != nil || d.Now.Before(asked.Truncate(0).UTC()) {
					t.Errorf("got %v of %v, %v, want what was seen after it was asked for at %v", got.status, d.Now, err, asked)
				}
				mu.Lock()
				times[d.Now] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if most := 2 + int(time.Since(began)/service.GlanceEvery); len(times) > most {
		t.Errorf("80 requests in %v made %d documents, want at most %d", time.Since(began), len(times), most)
	}
}

// TestStreamsEndWithTheirToken: a token that was removed reads no further, and the stream says why it ends; others go on.
func TestStreamsEndWithTheirToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admins")
	write(t, file, "ann:operator:"+adminToken+"\nsue:viewer:"+viewerToken+"\n")
	s := start(t, seenPolicies, func(o *service.Options) { o.AdminTokensFile = file })
	open := func(path, token string) *bufio.Reader {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Address("admin")+path, nil)
		request.Header.Set("Authorization", "Bearer "+token)
		got, err := http.DefaultClient.Do(request)
		if err != nil || got.StatusCode != http.StatusOK {
			t.Fatalf("got %v, %v", got, err)
		}
		t.Cleanup(func() { got.Body.Close() })
		return bufio.NewReader(got.Body)
	}
	stays := open("/v1/seen/stream", adminToken)
	ends := open("/v1/seen/stream", viewerToken)
	write(t, file, "ann:operator:"+adminToken+"\n")
	const want = "event: problem\ndata: {\"status\":401,\"detail\":\"the token is no longer valid\"}\n\n"
	if text, err := io.ReadAll(ends); err != nil || !strings.HasSuffix(string(text), want) {
		t.Errorf("got %.100q and then %v, want an end that says why", text, err)
	}
	for range 3 {
		if line, err := stays.ReadString('\n'); err != nil {
			t.Errorf("the stream of the other token: got %q, %v", line, err)
		}
	}
}

// TestServiceThatDrainsEndsStreams: streams do not keep a service from ending.
func TestServiceThatDrainsEndsStreams(t *testing.T) {
	s := start(t, seenPolicies, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Address("admin")+"/v1/seen/stream", nil)
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	s.Stop(t)
	if _, err := bufio.NewReader(got.Body).WriteTo(&bytes.Buffer{}); err != nil {
		t.Errorf("got %v, want the end of the stream", err)
	}
}
