package forward

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/config"
)

// A policy's refusal texts are in the body that Traefik and Caddy pass on to the client; a block list has its own text.
func TestRefusalTexts(t *testing.T) {
	s := newService(t, Options{}, false)
	file, err := config.Parse("policies", []byte(`
refusal: {type: "https://example.com/limits", status: 402}
policies:
  site: {limits: [1/1m fixed-window], block: [127.0.0.66], refusal: {title: Slow down, detail: "{policy} is busy: {retry_after}"}}
`))
	must(t, err)
	must(t, s.gate.Reload(file))
	if got := s.send(loopback, Path, traefik("GET", "/", "203.0.113.7")...); got.StatusCode != 200 {
		t.Errorf("got %s, want 200", summary(got))
	}
	for address, want := range map[string]string{
		"203.0.113.7": `{"type":"https://example.com/limits","title":"Slow down","status":402,"detail":"site is busy: 60",` +
			`"violated-policies":["1/1m fixed-window"],"retry_after":60}` + "\n",
		"127.0.0.66": `{"type":"about:blank","title":"Forbidden","status":403,"detail":"The client is on a block list."}` + "\n",
	} {
		response := s.send(loopback, Path, traefik("GET", "/", address)...)
		got, err := io.ReadAll(response.Body)
		if err != nil || string(got) != want || !strings.Contains(want, fmt.Sprintf(`"status":%d,`, response.StatusCode)) {
			t.Errorf("%s: got %s, %v, want %s", address, got, err, want)
		}
	}
}
