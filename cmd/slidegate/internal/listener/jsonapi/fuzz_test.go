package jsonapi

import (
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/rule"
)

// parsedRequest is a request as both readers return it.
type parsedRequest struct {
	gate.Request
	upTo bool
}

// newCall returns a call with this body.
func newCall(text string) *call {
	c := &call{scanner: scanner{text: text}}
	c.into = &c.one
	return c
}

// strictRequests reads the body of /v1/allow with encoding/json, slowly and obviously. The scanner must agree with it.
func strictRequests(text string) (reqs []parsedRequest, batch, ok bool) {
	if !utf8.ValidString(text) || !json.Valid([]byte(text)) || halfSurrogate(text) {
		return nil, false, false
	}
	fields, ok := strictFields([]byte(text))
	if !ok {
		return nil, false, false
	}
	if _, batch = fields["requests"]; !batch {
		one, ok := strictRequest(fields, true)
		return []parsedRequest{one}, false, ok
	}
	var requests []json.RawMessage
	if len(fields) != 1 || fields["requests"][0] != '[' || json.Unmarshal(fields["requests"], &requests) != nil ||
		len(requests) == 0 || len(requests) > MaxBatch {
		return nil, false, false
	}
	for _, request := range requests {
		fields, ok := strictFields(request)
		if !ok {
			return nil, false, false
		}
		one, ok := strictRequest(fields, false)
		if !ok {
			return nil, false, false
		}
		reqs = append(reqs, one)
	}
	return reqs, true, true
}

var escapes = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

// halfSurrogate reports whether valid JSON contains half of a surrogate pair, which encoding/json replaces.
func halfSurrogate(text string) bool {
	high := -1 // where the last high half ended
	for _, at := range escapes.FindAllStringIndex(text, -1) {
		n, err := strconv.ParseUint(strings.TrimPrefix(text[at[0]:at[1]], `\u`), 16, 16)
		if text[at[0]+1] != 'u' || err != nil {
			n = 0
		}
		low := n >= 0xdc00 && n < 0xe000
		if high >= 0 && (high != at[0] || !low) || high < 0 && low {
			return true
		}
		high = -1
		if n >= 0xd800 && n < 0xdc00 {
			high = at[1]
		}
	}
	return high >= 0
}

// strictFields splits an object into its fields. Duplicate names are an error.
func strictFields(text []byte) (map[string]json.RawMessage, bool) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, false
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if d.Decode(&value) != nil || fields[name.(string)] != nil {
			return nil, false
		}
		fields[name.(string)] = value
	}
	return fields, true
}

var digitsAlone = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

func strictRequest(fields map[string]json.RawMessage, alone bool) (a parsedRequest, ok bool) {
	a.Cost = 1
	if (fields["key"] == nil) == (fields["key_base64"] == nil) {
		return a, false
	}
	for name, value := range fields {
		var text string
		isText := value[0] == '"' && json.Unmarshal(value, &text) == nil
		var err error
		switch {
		case name == "policy" && isText:
			a.Policy = text
		case name == "key" && isText:
			a.Key = text
		case name == "key_base64" && isText:
			var key []byte
			key, err = base64.StdEncoding.DecodeString(text)
			if base64.StdEncoding.EncodeToString(key) != text {
				return a, false
			}
			a.Key = string(key)
		case name == "address" && isText:
			a.Address, err = netip.ParseAddr(text)
		case name == "cost" && digitsAlone.Match(value):
			a.Cost, err = strconv.ParseInt(string(value), 10, 64)
			if a.Cost > rule.MaxQuota {
				return a, false
			}
		case name == "up_to" && alone && (string(value) == "true" || string(value) == "false"):
			a.upTo = string(value) == "true"
		default:
			return a, false
		}
		if err != nil {
			return a, false
		}
	}
	return a, true
}

// scanRequests reads the same with the scanner.
func scanRequests(text string) (reqs []parsedRequest, batch, ok bool) {
	c := newCall(text)
	if !c.readAllow() {
		return nil, false, false
	}
	if !c.batch {
		return []parsedRequest{{c.one, c.upTo}}, false, true
	}
	for _, req := range c.requests {
		reqs = append(reqs, parsedRequest{Request: req})
	}
	return reqs, true, true
}

var goodBodies = []string{
	`{"key":""}`, `{"key":"k"}`, ` { "key" : "k" , "cost" : 0 } `, "\t{\"key\":\n\"k\"\r}\n",
	`{"policy":"p","key":"k","cost":9007199254740991,"address":"2001:db8::7","up_to":true}`,
	`{"key_base64":"","address":"::ffff:1.2.3.4"}`, `{"key_base64":"/+8=","up_to":false}`, `{"k\u0065y":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`,
	`{"key":"é😀` + "\u2028\x7f" + `"}`, `{"key":"\ufffd�"}`, `{"key":"fe80","address":"fe80::1%eth0"}`,
	`{"requests":[{"key":"a"}]}`, `{"requests": [ {"key":"a","cost":2} , {"key_base64":"YQ==","policy":"p","address":"1.2.3.4"} ] }`,
}

func FuzzAllow(f *testing.F) {
	for _, body := range goodBodies {
		f.Add(body)
	}
	for _, c := range badBodies {
		f.Add(c.body)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, batch, ok := scanRequests(text)
		want, wantBatch, wantOK := strictRequests(text)
		if ok != wantOK || batch != wantBatch || !reflect.DeepEqual(got, want) && ok {
			t.Errorf("%q:\ngot  %+v %v %v\nwant %+v %v %v", text, got, batch, ok, want, wantBatch, wantOK)
		}
	})
}

// Both readers accept the good bodies; otherwise the fuzzing would only compare rejections.
func TestGoodBodies(t *testing.T) {
	for _, body := range goodBodies {
		if _, _, ok := scanRequests(body); !ok {
			t.Errorf("refused: %s", body)
		}
	}
	for _, c := range badBodies {
		if _, _, ok := strictRequests(c.body); ok {
			t.Errorf("got %s accepted, want it rejected", c.body)
		}
	}
	got, _, _ := scanRequests(goodBodies[7])
	if want := "\"\\/\b\f\n\r\té😀"; got[0].Key != want {
		t.Errorf("%q, want %q", got[0].Key, want)
	}
	got, _, _ = scanRequests(goodBodies[6])
	if want := (gate.Request{Key: "\xff\xef", Cost: 1}); !reflect.DeepEqual(got[0].Request, want) {
		t.Errorf("got %+v, want %+v", got[0].Request, want)
	}
}

// Any body sent to settle results in either a problem or a reservation.
func FuzzSettle(f *testing.F) {
	f.Add(`{"reservation":{"id":"i","group":"g","charges":[{"limit":"2/1m","key":"aw==","cost":1,"at":-1}]},"costs":[1]}`)
	f.Add(`{"reservation":{"id":"i","charges":[]},"cost":1,"policy":"p"}`)
	f.Add(`{"reservation":{"id":"i","charges":[{"limit":"2/1m","key":"aw==","cost":1,"at":-1}]},"costs":{"2/1m":3 , "x" : 0}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c := newCall(text)
		ok := c.readSettle()
		if ok != (c.problem == nil) || ok && (!json.Valid([]byte(text)) || c.reservation.ID == "" || c.costs == nil && c.one.Used == nil && !strings.Contains(text, "{")) {
			t.Errorf("%q: read %v, problem %+v, want a problem or valid JSON with a reservation's id", text, ok, c.problem)
		}
	})
}
