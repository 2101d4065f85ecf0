package jsonapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// wantProblem checks a problem.
func (a reply) wantProblem(t testing.TB, status int, field, detail string) problem {
	t.Helper()
	var got problem
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatalf("got %d %q, want a problem in JSON: %v", a.status, a.body, err)
	}
	if a.status != status || got.Status != status || got.Field != field || !strings.Contains(got.Detail, detail) ||
		a.header.Get("Content-Type") != "application/problem+json" || got.Title == "" {
		t.Errorf("got %d %s, want %d, the field %q and %q", a.status, a.body, status, field, detail)
	}
	return got
}

// badBodies holds bodies that /v1/allow rejects: at which offset, in which field, and why.
var badBodies = []struct {
	body   string
	offset int
	field  string
	detail string
}{
	{``, 0, "", "an object, not the end"},
	{`null`, 0, "", "not null"},
	{`[]`, 0, "", "an object, not an array"},
	{`{}`, 0, "key", "is missing"},
	{` {"policy":"p"}`, 1, "key", "is missing"},
	{`{"key":"k","key_base64":"aw=="}`, 0, "key_base64", "keep one"},
	{`{"key":"k"`, 10, "key", "followed by a comma or a closing brace"},
	{`{"key":"k",}`, 11, "", "name of a field"},
	{`{"key":"k" "cost":1}`, 11, "key", "followed by a comma"},
	{`{"key" "k"}`, 7, "key", "a colon"},
	{`{key:"k"}`, 1, "", "double quotes"},
	{`{"key":"k"}x`, 11, "", "unexpected data"},
	{`{"key":"k"}{}`, 11, "", "unexpected data"},
	{`{"key":"k","key":"k"}`, 11, "key", "duplicate"},
	{`{"key":"k","k\u0065y":"k"}`, 11, "key", "duplicate"},
	{`{"Key":"k"}`, 1, "Key", `did you mean "key"`},
	{`{"key":"k","cots":1}`, 11, "cots", `did you mean "cost"`},
	{`{"key":"k","zzzzzzz":1}`, 11, "zzzzzzz", "want one of policy, key, key_base64, cost, address, plan, id, wait_us, up_to, requests"},
	{`{"key":null}`, 7, "key", "a string, not null"},
	{`{"key":7}`, 7, "key", "a string, not a number"},
	{`{"key":{}}`, 7, "key", "a string, not an object"},
	{`{"key":["k"]}`, 7, "key", "a string, not an array"},
	{`{"key":true}`, 7, "key", "a string, not a boolean"},
	{`{"key":'k'}`, 7, "key", "invalid JSON"},
	{`{"key":"k`, 9, "key", "unterminated"},
	{`{"key":"k\`, 9, "key", "escape"},
	{`{"key":"\x41"}`, 8, "key", "escape"},
	{`{"key":"\u12"}`, 8, "key", "escape"},
	{`{"key":"\u+123"}`, 8, "key", "escape"},
	{`{"key":"\ud800"}`, 8, "key", "surrogate"},
	{`{"key":"\ud800\u0041"}`, 8, "key", "surrogate"},
	{`{"key":"\udc00\ud800"}`, 8, "key", "surrogate"},
	{"{\"key\":\"a\xff\"}", 9, "key", "not valid UTF-8"},
	{"{\"key\":\"a\xed\xa0\x80\"}", 9, "key", "not valid UTF-8"},
	{"{\"key\":\"a\nb\"}", 9, "key", `\u000a`},
	{"{\"key\":\"a\tb\"}", 9, "key", `\u0009`},
	{`{"key_base64":"a"}`, 14, "key_base64", "base64"},
	{`{"key_base64":"aw"}`, 14, "key_base64", "base64"},
	{`{"key_base64":"ax=="}`, 14, "key_base64", "base64"}, // unused bits are set: two texts would be one key
	{`{"key_base64":"_w=="}`, 14, "key_base64", "base64"},
	{`{"key_base64":"aw=\n="}`, 14, "key_base64", "base64"},
	{`{"key":"k","cost":1e3}`, 18, "cost", "digits only"},
	{`{"key":"k","cost":1.0}`, 18, "cost", "digits only"},
	{`{"key":"k","cost":1.5}`, 18, "cost", "digits only"},
	{`{"key":"k","cost":01}`, 18, "cost", "digits only"},
	{`{"key":"k","cost":-}`, 18, "cost", "digits only"},
	{`{"key":"k","cost":+1}`, 18, "cost", "digits only"},
	{`{"key":"k","cost":-1}`, 18, "cost", "0 to 9007199254740991"},
	{`{"key":"k","cost":-0}`, 18, "cost", "0 to 9007199254740991"},
	{`{"key":"k","cost":9007199254740992}`, 18, "cost", "0 to 9007199254740991"},
	{`{"key":"k","cost":99999999999999999999}`, 18, "cost", "0 to 9007199254740991"},
	{`{"key":"k","cost":"1"}`, 18, "cost", "a number, not a string"},
	{`{"key":"k","cost":null}`, 18, "cost", "a number, not null"},
	{`{"key":"k","cost":NaN}`, 18, "cost", "invalid JSON"},
	{`{"key":"k","address":"localhost"}`, 21, "address", "an IP address"},
	{`{"key":"k","address":""}`, 21, "address", "an IP address"},
	{`{"key":"k","address":"1.2.3.4:80"}`, 21, "address", "without a port"},
	{`{"key":"k","up_to":1}`, 19, "up_to", "true or false, not a number"},
	{`{"key":"k","up_to":null}`, 19, "up_to", "true or false, not null"},
	{`{"key":"k","up_to":truely}`, 23, "up_to", "followed by a comma"},
	{`{"requests":{}}`, 12, "requests", "an array, not an object"},
	{`{"requests":null}`, 12, "requests", "an array, not null"},
	{`{"requests":[]}`, 12, "requests", "is empty"},
	{`{"requests":[{"key":"a"}],"policy":"p"}`, 0, "requests", "cannot be combined"},
	{`{"requests":[{"key":"a"}],"key":"k"}`, 0, "requests", "cannot be combined"},
	{`{"requests":[{"key":"a"},]}`, 25, "requests[1]", "an object"},
	{`{"requests":[{"key":"a"} {"key":"b"}]}`, 25, "requests", "a comma or a closing bracket"},
	{`{"requests":[{"key":"a"},null]}`, 25, "requests[1]", "an object, not null"},
	{`{"requests":[{"key":"a"},{}]}`, 25, "requests[1].key", "is missing"},
	{`{"requests":[{"key":"a"},{"key":"b","cost":-1}]}`, 43, "requests[1].cost", "0 to"},
	{`{"requests":[{"key":"a","up_to":true}]}`, 24, "requests[0].up_to", "not a field"},
	{`{"requests":[{"key":"a","requests":[]}]}`, 24, "requests[0].requests", "not a field"},
}

func TestBadBodies(t *testing.T) {
	s := newService(t, Options{})
	for _, c := range badBodies {
		got := s.post("/v1/allow", c.body).wantProblem(t, 400, c.field, c.detail)
		if got.Offset == nil || *got.Offset != c.offset {
			t.Errorf("%s: got offset %v, want %d", c.body, got.Offset, c.offset)
		}
		if got.Line != 1 && !strings.Contains(c.body, "\n") {
			t.Errorf("%s: got line %d, want 1", c.body, got.Line)
		}
	}
	got := s.post("/v1/allow", "{\n \"key\": \"k\",\n \"cots\": 1\n}").wantProblem(t, 400, "cots", "not a field")
	if got.Line != 3 || *got.Offset != 16 || got.Meant != "cost" {
		t.Errorf("got line %d, offset %d, %q", got.Line, *got.Offset, got.Meant)
	}
	many := `{"requests":[` + strings.TrimSuffix(strings.Repeat(`{"key":"k"},`, MaxBatch+1), ",") + `]}`
	s.post("/v1/allow", many).wantProblem(t, 400, "requests", "more than 1000")
	if n := s.store.applies.Load(); n != 0 {
		t.Errorf("got %d calls to the store, want none", n)
	}
}

// The other endpoints accept fewer fields.
func TestBadBodiesOfOthers(t *testing.T) {
	s := newService(t, Options{})
	good := `{"version":1,"id":"i","namespace":"login","charges":[{"limit":"2/1m","key":"aw==","cost":1,"at":1}]}`
	for _, c := range []struct{ path, body, field, detail string }{
		{"/v1/peek", `{"key":"k","up_to":true}`, "up_to", "not a field"},
		{"/v1/reserve", `{"key":"k","requests":[]}`, "requests", "not a field"},
		{"/v1/refund", `{}`, "key", "is missing"},
		{"/v1/reset", `{"key":"k","cost":1}`, "cost", "not a field"},
		{"/v1/reset", `{"key":"k","why":"a\nb"}`, "why", "must be one line"},
		{"/v1/reset", `{"key":"k","why":"` + strings.Repeat("x", 513) + `"}`, "why", "at most 512 bytes"},
		{"/v1/reset", `{"key":"k","who":"` + strings.Repeat("x", 129) + `"}`, "who", "at most 128 bytes"},
		{"/v1/peek", `{"key":"k","why":"a"}`, "why", "not a field"},
		{"/v1/peek", `{"key":"k"} 1`, "", "unexpected data"},
		{"/v1/settle", `{"cost":1}`, "reservation", "is missing"},
		{"/v1/settle", `{"reservation":` + good + `}`, "cost", "is missing"},
		{"/v1/settle", `{"reservation":` + good + `,"cost":1,"costs":[1]}`, "costs", "keep one"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":[1,-1]}`, "costs[1]", "whole number"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":[1 2]}`, "costs", "a comma"},
		{"/v1/settle", `{"reservation":` + good + `,"cost":1}}`, "", "unexpected data"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":{"2/1m":-1}}`, "costs", "whole number"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":{"2/1m":null}}`, "costs", "a number"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":{"2/1m":1,"2/1m":2}}`, "costs", "duplicate"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":{"2/1m" 1}}`, "costs", "a colon"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":{"2/1m":1 "x":1}}`, "costs", "a comma"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":{1:1}}`, "costs", "a string"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":{"2/1m":1`, "costs", "a comma"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":7}`, "costs", "an array"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":[]}`, "costs", "by limit"},
		{"/v1/settle", `{"reservation":` + good + `,"costs":{"other":1}}`, "reservation", "\"2/1m\""},
		{"/v1/charge", `{}`, "key", "is missing"},
		{"/v1/charge", `{"key":"k","cost":0}`, "cost", "must be 1"},
		{"/v1/charge", `{"key":"k","cost":-1}`, "cost", "whole number"},
		{"/v1/cancel", `{"reservation":` + good + `,"cost":1}`, "cost", "not a field"},
		{"/v1/cancel", `{"reservation":{"version":2,"id":"i","charges":[]}}`, "reservation.version", "must be 1"},
		{"/v1/cancel", `{"reservation":{"id":"i","charges":[]}}`, "reservation.version", "must be 1"},
		{"/v1/cancel", `{"policy":"two","reservation":` + good + `}`, "reservation", "login"},
		{"/v1/cancel", `{"reservation":{"version":0,"id":"i","charges":[]}}`, "reservation.version", "whole number"},
		{"/v1/release", `{"reservation":` + good + `,"cost":1}`, "cost", "not a field"},
		{"/v1/renew", `{"reservation":` + good + `,"costs":{}}`, "costs", "not a field"},
		{"/v1/renew", `{"reservation":` + good + `}`, "reservation", "neither slots nor held units"},
		{"/v1/acquire", `{"policy":"slots","key":"k","requests":[]}`, "requests", "not a field"},
		{"/v1/acquire", `{"policy":"login","key":"k"}`, "policy", "in-flight"},
		{"/v1/allow", `{"policy":"slots","key":"k"}`, "policy", "/v1/acquire"},
		{"/v1/allow", `{"policy":"slots","key":"k","up_to":true}`, "policy", "/v1/acquire"},
		{"/v1/charge", `{"policy":"slots","key":"k"}`, "policy", "/v1/acquire"},
		{"/v1/cancel", `{"reservation":null}`, "reservation", "not null"},
		{"/v1/cancel", `{"reservation":{"id":"i"}}`, "reservation.", "lacks"},
		{"/v1/cancel", `{"reservation":{"id":"","charges":[]}}`, "reservation.id", "is empty"},
		{"/v1/cancel", `{"reservation":{"id":"i","charges":null}}`, "reservation.charges", "an array"},
		{"/v1/cancel", `{"reservation":{"id":"i","charges":[{"limit":"2/1m"}]}}`, "reservation.charges[0]", "lacks a field"},
		{"/v1/cancel", `{"reservation":{"id":"i","charges":[{"limit":"2/1x"}]}}`, "reservation.charges[0].limit", "2/1x"},
		{"/v1/cancel", `{"reservation":{"id":"i","charges":[{"key":"a"}]}}`, "reservation.charges[0].key", "base64"},
		{"/v1/cancel", `{"reservation":{"id":"i","charges":[{"at":1e3}]}}`, "reservation.charges[0].at", "digits only"},
	} {
		s.post(c.path, c.body).wantProblem(t, 400, c.field, c.detail)
	}
}

func TestBadRequests(t *testing.T) {
	var log bytes.Buffer
	s := newService(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	good := `{"key":"secret"}`
	if got := s.send("GET", "/v1/allow", "", "").wantProblem(t, 405, "", "only accepts POST"); got.Title == "" {
		t.Error("got no title, want one")
	}
	if got := s.send("PUT", "/v1/allow", good, "application/json").header.Get("Allow"); got != "POST" {
		t.Errorf("Allow: got %q, want \"POST\"", got)
	}
	if got := s.send("POST", "/v1/openapi.json", "", "").header.Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow: got %q, want \"GET, HEAD\"", got)
	}
	if got := s.send("HEAD", "/v1/openapi.json", "", ""); got.status != 200 {
		t.Errorf("HEAD: got %d, want status 200", got.status)
	}
	if got := s.post("/v1/alow", good).wantProblem(t, 404, "", "/v1/allow"); got.Meant != "/v1/allow" {
		t.Errorf("got the suggestion %q, want /v1/allow", got.Meant)
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonp", "json"} {
		s.send("POST", "/v1/allow", good, kind).wantProblem(t, 415, "", "application/json")
	}
	for _, kind := range []string{"application/json; charset=utf-8", "Application/JSON", "application/json;charset=UTF-8"} {
		if got := s.send("POST", "/v1/peek", good, kind); got.status != 200 {
			t.Errorf("%s: got %d, want 200", kind, got.status)
		}
	}
	pad := func(n int) string { return good + strings.Repeat(" ", n-len(good)) }
	s.post("/v1/peek", pad(MaxBody+1)).wantProblem(t, 413, "", "1 MiB")
	if got := s.post("/v1/peek", pad(MaxBody)); got.status != 200 {
		t.Errorf("a body of exactly 1 MiB: got %d, want 200", got.status)
	}
	s.post("/v1/allow", `{"policy":"logn","key":"k"}`).wantProblem(t, 404, "policy", `did you mean "login"`)
	if status, detail := new(API).classify(new(http.Request), gate.ErrNoPolicy, false); status != 400 || detail != gate.ErrNoPolicy.Error() {
		t.Errorf("no policy: got %d, %q; want 400 and the text of the error", status, detail)
	}
	s.fail(errBroken)
	for range 3 {
		got := s.post("/v1/allow", good).wantProblem(t, 503, "", "could not answer")
		if strings.Contains(got.Detail, "10.1.2.3") {
			t.Errorf("got %s, want a detail without machine names", got.Detail)
		}
	}
	if text := log.String(); !strings.Contains(text, "connection refused") || strings.Contains(text, "secret") || strings.Count(text, "\n") > 2 {
		t.Errorf("got the log %q", text)
	}
	s.fail(context.Canceled) // for a reason of its own: the client is still there
	s.post("/v1/allow", good).wantProblem(t, 503, "", "could not answer")
}

// A body without a Content-Length is bounded too.
func TestLongBodyInChunks(t *testing.T) {
	s := newService(t, Options{})
	response, err := s.public.Client().Post(s.public.URL+"/v1/peek", "application/json",
		struct{ *strings.Reader }{strings.NewReader(strings.Repeat(" ", MaxBody+1))})
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode != 413 {
		t.Errorf("got %d, want 413", response.StatusCode)
	}
}

func TestNewRejectsNilGate(t *testing.T) {
	if _, err := New(nil, Options{}); err == nil || !strings.HasPrefix(err.Error(), "jsonapi: gate: ") {
		t.Errorf("got the error %v, want one about gate", err)
	}
}
