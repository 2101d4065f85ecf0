package monitoring_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1")) // sleeps for a second after a client is closed
}

// deploy is the folder of the shipped files.
const deploy = "../../../../../deploy"

// prometheus is a running Prometheus server.
type prometheus struct{ url string }

// startPrometheus starts a server that scrapes targets every second and evaluates the shipped alerts.
func startPrometheus(t *testing.T, targets ...string) *prometheus {
	t.Helper()
	folder := t.TempDir()
	alerts, err := filepath.Abs(filepath.Join(deploy, "prometheus", "alerts.yaml"))
	testkit.NoError(t, err)
	list, err := json.Marshal(targets)
	testkit.NoError(t, err)
	config := filepath.Join(folder, "prometheus.yaml")
	servicetest.Write(t, config, fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: slidegate, static_configs: [{targets: %s}]}]\n", alerts, list))
	address := testkit.FreeAddress(t)
	log := &bytes.Buffer{}
	server := testkit.Prometheus(t, config, address)
	server.Stdout, server.Stderr = log, log
	testkit.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
		if t.Failed() {
			t.Logf("the log of Prometheus:\n%s", log)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	p := &prometheus{"http://" + address}
	testkit.Eventually(t, "Prometheus to be ready", func() bool {
		response, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

// get decodes a response of the API into to.
func (p *prometheus) get(t *testing.T, path string, to any) {
	t.Helper()
	response, err := http.Get(p.url + path)
	testkit.NoError(t, err)
	defer response.Body.Close()
	got := struct {
		Error string
		Data  any
	}{Data: to}
	testkit.NoError(t, json.NewDecoder(response.Body).Decode(&got))
	if got.Error != "" {
		t.Fatalf("%s: %s", path, got.Error)
	}
}

// values returns the current values of an expression.
func (p *prometheus) values(t *testing.T, expr string) (values []string) {
	t.Helper()
	var got struct {
		Result []struct{ Value [2]any }
	}
	p.get(t, "/api/v1/query?query="+url.QueryEscape(expr), &got)
	for _, one := range got.Result {
		values = append(values, fmt.Sprint(one.Value[1]))
	}
	return values
}
