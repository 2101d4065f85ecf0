package envoy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Requests that a page of another site can make a browser send are rejected; requests that people type are not.
func TestJSONFromOtherSites(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	server := httptest.NewServer(r.service.Handler())
	defer server.Close()
	const req = `{"domain": "d", "hits_addend": 1, "descriptors": [{"hits_addend": "0", "entries": [{"key": "k", "value": "a"}]}]}`
	post := func(body string, headers ...string) int {
		t.Helper()
		request, err := http.NewRequest("POST", server.URL+"/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	for _, c := range []struct {
		want    int
		headers []string
	}{
		{200, nil},
		{200, []string{"Content-Type", "application/json"}},
		{200, []string{"Content-Type", "Application/JSON; charset=utf-8"}},
		{200, []string{"Content-Type", "application/x-www-form-urlencoded"}}, // curl -d
		{200, []string{"Content-Type", "application/json", "Origin", server.URL}},
		{200, []string{"Content-Type", "application/json", "Sec-Fetch-Site", "same-origin", "Origin", server.URL}},
		{200, []string{"Sec-Fetch-Site", "none"}},
		{403, []string{"Content-Type", "text/plain", "Origin", "http://evil.example"}},
		{403, []string{"Content-Type", "application/json", "Origin", "http://evil.example"}},
		{403, []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "http://evil.example"}},
		{403, []string{"Origin", "http://evil.example"}},
		{403, []string{"Origin", "null"}},
		{403, []string{"Origin", "http://127.0.0.1:1"}},
		{403, []string{"Sec-Fetch-Site", "cross-site"}},
		{403, []string{"Sec-Fetch-Site", "same-site"}},
		{403, []string{"Content-Type", "application/json", "Sec-Fetch-Site", "cross-site", "Origin", server.URL}},
		{415, []string{"Content-Type", "text/plain"}},
		{415, []string{"Content-Type", "text/plain;charset=UTF-8"}},
		{415, []string{"Content-Type", "multipart/form-data; boundary=x"}},
		{415, []string{"Content-Type", "application/jsonx"}},
		{415, []string{"Content-Type", ";"}},
	} {
		before := r.store.calls.Load()
		if got := post(req, c.headers...); got != c.want {
			t.Errorf("%q: got %d, want %d", c.headers, got, c.want)
		}
		if called := r.store.calls.Load() > before; called != (c.want == 200) {
			t.Errorf("%q: the store was called: %v", c.headers, called)
		}
	}
}
