package httplimit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// A request of a lower class is refused while a higher one still finds what the lower one cannot reach.
func TestClasses(t *testing.T) {
	p := newPlay(t, Options{Policies: []Policy{{
		Name: "api", Key: Global(), Limits: []slidegate.Limit{slidegate.MustParseLimit("4/1h fixed-window")},
		Classes: []policy.Class{{Name: "critical", Percent: 100}, {Name: policy.DefaultClass, Percent: 75}, {Name: "batch", Percent: 50}},
		Class:   func(r *http.Request) string { return r.Header.Get("X-Class") },
	}}}, nil)
	for i, step := range []struct {
		class, want string
		status      int
		left        string
	}{
		{"batch", "batch", 200, `"api";r=1;t=3600`}, {"batch", "batch", 200, `"api";r=0;t=3600`}, {"batch", "batch", 429, `"api";r=0;t=3600`},
		{"", "default", 200, `"api";r=0;t=3600`}, {"x", "default", 429, `"api";r=0;t=3600`}, {"critical", "critical", 200, `"api";r=0;t=3600`},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Class", step.class)
		w := p.do(r)
		if w.Code != step.status || w.Header().Get("RateLimit") != step.left || p.last().Class != step.want {
			t.Errorf("request %d, %q: got %d, %s, class %q; want %+v", i, step.class, w.Code, w.Header().Get("RateLimit"), p.last().Class, step)
		}
	}
}

func TestClassesNeedAFunction(t *testing.T) {
	limiter := newPlay(t, Options{}, nil, slidegate.PerMinute(5)).limiter
	for name, p := range map[string]Policy{
		"classes alone":    {Classes: []policy.Class{{Name: policy.DefaultClass, Percent: 50}}},
		"a function alone": {Class: func(*http.Request) string { return "" }},
	} {
		if _, err := New(limiter, Options{Policies: []Policy{p}}); err == nil || !strings.Contains(err.Error(), "classes: need both") {
			t.Errorf("%s: got %v, want an error that says what is missing", name, err)
		}
	}
}
