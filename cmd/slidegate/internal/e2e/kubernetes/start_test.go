package kubernetes_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/e2e/manifest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

const (
	client, nextClient     = "the-first-client-token", "the-second-client-token"
	operator, nextOperator = "the-first-operator-token", "the-second-operator-token"
)

// secrets returns the Secrets that the comments of the manifests create.
func secrets(client, operator string) map[string]map[string]string {
	return map[string]map[string]string{
		"slidegate-tokens":  {"tokens": client + "\n", "admin-tokens": "ops:operator:" + operator + "\n"},
		"slidegate-store":   {"url": "postgres://slidegate:secret@127.0.0.1:1/limits\n"}, // nothing listens there
		"slidegate-cluster": {"secret": "the-secret-of-the-cluster\n"},
	}
}

// status requests a page with a token, and returns the status; 0 if there is no response.
func status(t *testing.T, method, url, token, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testkit.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// TestPodsStart starts the program as each pod does. Its probes succeed, also without the store, and new tokens and policies are in force
// without a restart.
func TestPodsStart(t *testing.T) {
	eachShape(t, func(t *testing.T, f *manifest.File, w *manifest.Object) {
		own, other, third := testkit.FreeAddress(t), testkit.FreeAddress(t), testkit.FreeAddress(t)
		host := ".slidegate-cluster.${POD_NAMESPACE}.svc.cluster.local:6222"
		pod := f.Pod(t, w, "slidegate-0", secrets(client, operator), "slidegate-redis:6379", redistest.Server(t).Addr(),
			"${POD_NAME}"+host, own, "slidegate-0"+host, own, "slidegate-1"+host, other, "slidegate-2"+host, third)
		c := exec.Command(slidegate, pod.Args...)
		c.Env = pod.Env
		p := testkit.Run(t, c)
		var at map[string]string
		p.Await(t, "all listeners are open", func() bool {
			at = manifest.Addresses(p.Output.String())
			return len(at) == 5
		})
		if strings.Contains(p.Output.String(), `"level":"WARN","msg":"the listener`) || strings.Contains(p.Output.String(), "unknown environment variable") {
			t.Errorf("it warns: %s", p.Output.String())
		}
		for _, probe := range []*manifest.Probe{w.Container().LivenessProbe, w.Container().ReadinessProbe} {
			url := "http://" + at[w.Container().Listener(probe.HTTPGet.Port)] + probe.HTTPGet.Path
			testkit.Eventually(t, url+" is 200", func() bool { return status(t, "GET", url, "", "") == http.StatusOK })
		}
		if probe := w.Container().StartupProbe; probe != nil { // one of three has no store
			if got := status(t, "GET", "http://"+at[probe.HTTPGet.Port]+probe.HTTPGet.Path, "", ""); got != http.StatusServiceUnavailable {
				t.Errorf("the startup probe of one of three: got %d, want 503", got)
			}
		}
		if got := status(t, "GET", "http://"+at["metrics"]+"/metrics", "", ""); got != http.StatusOK {
			t.Errorf("the metrics: got %d, want 200", got)
		}
		allow := func(token, policy string) int {
			return status(t, "POST", "http://"+at["http"]+"/v1/allow", token, `{"key":"me","policy":"`+policy+`"}`)
		}
		seen := func(token string) int { return status(t, "GET", "http://"+at["admin"]+"/v1/seen", token, "") }
		if a, b, c, d := allow(client, "default"), allow(nextClient, "default"), seen(operator), seen(client); a != 200 || b != 401 || c != 200 || d != 401 {
			t.Errorf("the first tokens: got %d, %d, %d and %d, want 200, 401, 200 and 401", a, b, c, d)
		}

		pod.Mounts["slidegate-tokens"].Update(t, secrets(nextClient, nextOperator)["slidegate-tokens"])
		testkit.Eventually(t, "the new client token is valid", func() bool { return allow(nextClient, "default") == 200 })
		if a, b, c := allow(client, "default"), seen(operator), seen(nextOperator); a != 401 || b != 401 || c != 200 {
			t.Errorf("the new tokens: got %d, %d and %d, want 401, 401 and 200", a, b, c)
		}
		policies := pod.Mounts["slidegate"].Read(t, "slidegate.yaml")
		pod.Mounts["slidegate"].Update(t, map[string]string{"slidegate.yaml": strings.Replace(policies, "\n  default:", "\n  another: {limits: [5/1m]}\n  default:", 1)})
		testkit.Eventually(t, "the new policy is in force", func() bool { return allow(nextClient, "another") == 200 })
	})
}
