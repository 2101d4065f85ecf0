package kubernetes_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/e2e/manifest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// within reports whether all labels of a selector are among the labels.
func within(selector map[string]any, labels map[string]string) bool {
	if matchLabels, ok := selector["matchLabels"].(map[string]any); ok {
		selector = matchLabels
	}
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return len(selector) > 0
}

// flag returns the value of a flag.
func flag(t *testing.T, args []string, name string) string {
	t.Helper()
	for _, arg := range args {
		if value, found := strings.CutPrefix(arg, "--"+name+"="); found {
			return value
		}
	}
	t.Fatalf("no --%s in %q", name, args)
	return ""
}

// filesIn finds the paths of files that a pod mounts.
var filesIn = regexp.MustCompile(`/etc/[\w/.-]+`)

// TestFilesAreMounted checks that each file that the arguments and the policy file name is in a ConfigMap of the manifest, or in a Secret
// that the comment at the top creates with that key.
func TestFilesAreMounted(t *testing.T) {
	eachShape(t, func(t *testing.T, f *manifest.File, w *manifest.Object) {
		created := map[string][]string{}
		for _, line := range regexp.MustCompile(`(?m)^#   kubectl create secret generic (\S+) (.*)$`).FindAllStringSubmatch(f.Text, -1) {
			for _, key := range regexp.MustCompile(`--from-literal=([\w-]+)=`).FindAllStringSubmatch(line[2], -1) {
				created[line[1]] = append(created[line[1]], key[1])
			}
		}
		config := f.Get("ConfigMap", "slidegate")
		if config == nil {
			t.Fatal("no ConfigMap named slidegate")
		}
		named := filesIn.FindAllString(strings.Join(w.Container().Args, "\n")+"\n"+config.Data["slidegate.yaml"], -1)
		if len(named) < 3 {
			t.Errorf("found only the files %q", named)
		}
		used := map[string]bool{}
		for _, file := range named {
			volume, mounted := w.Volume(file)
			key := strings.TrimPrefix(file, mounted+"/")
			switch {
			case volume == nil:
				t.Errorf("%s is not mounted", file)
			case volume.ConfigMap.Name != "":
				if o := f.Get("ConfigMap", volume.ConfigMap.Name); o == nil || o.Data[key] == "" {
					t.Errorf("%s is not in the ConfigMap %s", file, volume.ConfigMap.Name)
				}
			case !slices.Contains(created[volume.Secret.SecretName], key):
				t.Errorf("%s: the comment does not create the key %s of the Secret %q, but %v", file, key, volume.Secret.SecretName, created)
			}
			used[volume.Secret.SecretName] = true
		}
		for name := range created {
			if !used[name] {
				t.Errorf("the comment creates the Secret %s, which nothing uses", name)
			}
		}
		for _, m := range w.Container().VolumeMounts {
			if m.SubPath != "" {
				t.Errorf("%s has a subPath: its files never change", m.MountPath)
			}
		}
		for _, env := range w.Container().Env {
			if len(env.ValueFrom.SecretKeyRef) > 0 {
				t.Errorf("the variable %s has a secret, which changes only with a rollout", env.Name)
			}
		}
	})
}

// TestPorts checks that each port of the container is that of a listener, and that each listener and each port of the Services is a port
// of the container.
func TestPorts(t *testing.T) {
	eachShape(t, func(t *testing.T, f *manifest.File, w *manifest.Object) {
		c := w.Container()
		names := map[string]int{}
		for _, p := range c.Ports {
			names[p.Name] = p.ContainerPort
			if got := c.Listener(p.Name); got != p.Name && p.Name != "cluster" {
				t.Errorf("the port %s, %d, is that of the listener %q", p.Name, p.ContainerPort, got)
			}
		}
		for _, listener := range []string{"http", "grpc", "resp", "admin", "metrics"} {
			if names[listener] == 0 {
				t.Errorf("the container has no port for --%s", listener)
			}
		}
		for _, probe := range []*manifest.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if probe != nil && names[probe.HTTPGet.Port] == 0 {
				t.Errorf("a probe has the port %q, which the container does not have", probe.HTTPGet.Port)
			}
		}
		if at := w.Spec.Template.Metadata.Annotations["prometheus.io/port"]; at != fmt.Sprint(names["metrics"]) {
			t.Errorf("Prometheus scrapes the port %s, want %d", at, names["metrics"])
		}
		services := 0
		for _, service := range f.All("Service") {
			if !within(service.Spec.Selector, w.Spec.Template.Metadata.Labels) {
				continue
			}
			services++
			for _, p := range service.Spec.Ports {
				if names[p.TargetPort] != p.Port {
					t.Errorf("the Service %s: port %d goes to %q, which is %d", service.Metadata.Name, p.Port, p.TargetPort, names[p.TargetPort])
				}
			}
		}
		if services < 2 {
			t.Errorf("%d Services select the pods, want one for clients and one for operators", services)
		}
		budgets := f.All("PodDisruptionBudget")
		for _, o := range append(budgets, w) {
			if !within(o.Spec.Selector, w.Spec.Template.Metadata.Labels) {
				t.Errorf("the %s does not select the pods: %v", o.Kind, o.Spec.Selector)
			}
		}
		if len(budgets) != 1 {
			t.Errorf("%d PodDisruptionBudgets, want 1", len(budgets))
		}
	})
}

// TestPodIsConfined checks what a pod may do, and that it may take as long to stop as its flags say.
func TestPodIsConfined(t *testing.T) {
	eachShape(t, func(t *testing.T, f *manifest.File, w *manifest.Object) {
		for _, o := range slices.Concat(f.All("Deployment"), f.All("StatefulSet")) {
			pod, own := o.Spec.Template.Spec.SecurityContext, o.Container().SecurityContext
			user, _ := pod["runAsUser"].(uint64)
			if pod["runAsNonRoot"] != true || user == 0 || o == w && user != 65532 || own["readOnlyRootFilesystem"] != true || own["allowPrivilegeEscalation"] != false ||
				!strings.Contains(fmt.Sprint(own["capabilities"]), "drop:[ALL]") || !strings.Contains(fmt.Sprint(pod["seccompProfile"]), "RuntimeDefault") {
				t.Errorf("%s: got %v and %v", o.Metadata.Name, pod, own)
			}
		}
		delay, err := time.ParseDuration(flag(t, w.Container().Args, "drain-delay"))
		testkit.NoError(t, err)
		const drain = 10 * time.Second // the default
		if grace := time.Duration(w.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= delay+drain || delay < 5*time.Second {
			t.Errorf("a pod is killed after %v, and needs %v and %v", grace, delay, drain)
		}
		if got := flag(t, w.Container().Args, "instances"); got != strconv.Itoa(w.Spec.Replicas) {
			t.Errorf("--instances=%s with %d replicas", got, w.Spec.Replicas)
		}
	})
}

// TestPoliciesPassCheck runs config check on the policy file of each ConfigMap, and checks that the Services that its store names exist.
func TestPoliciesPassCheck(t *testing.T) {
	eachShape(t, func(t *testing.T, f *manifest.File, w *manifest.Object) {
		text := f.Get("ConfigMap", "slidegate").Data["slidegate.yaml"]
		check := exec.Command(slidegate, "config", "check", "-")
		check.Stdin = strings.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("config check: %v: %s\n%s", err, out, text)
		}
		for _, host := range regexp.MustCompile(`redis://([\w-]+):(\d+)`).FindAllStringSubmatch(text, -1) {
			service := f.Get("Service", host[1])
			if service == nil || fmt.Sprint(service.Spec.Ports[0].Port) != host[2] {
				t.Errorf("the store is %s, and there is no such Service", host[0])
				continue
			}
			if !slices.ContainsFunc(f.All("Deployment"), func(o *manifest.Object) bool { return within(service.Spec.Selector, o.Spec.Template.Metadata.Labels) }) {
				t.Errorf("the Service %s selects nothing", host[1])
			}
		}
	})
}

// TestClusterOfStatefulSet checks that the store names exactly the pods of the StatefulSet, at the Service that resolves them before they
// are ready, and that its files are on a volume of their own.
func TestClusterOfStatefulSet(t *testing.T) {
	f := read(t, "nats")
	w := f.Get("StatefulSet", "slidegate")
	text := f.Get("ConfigMap", "slidegate").Data["slidegate.yaml"]
	parameters := map[string]string{}
	for _, p := range regexp.MustCompile(`[?&](\w+)=([^&"]+)`).FindAllStringSubmatch(text, -1) {
		parameters[p[1]] = p[2]
	}
	service := f.Get("Service", w.Spec.ServiceName)
	if service == nil || service.Spec.ClusterIP != "None" || !service.Spec.PublishNotReadyAddresses || len(service.Spec.Ports) != 1 {
		t.Fatalf("the Service %q of the StatefulSet is %+v, want a headless one with the addresses of pods that are not ready", w.Spec.ServiceName, service)
	}
	host := fmt.Sprintf(".%s.${POD_NAMESPACE}.svc.cluster.local:%d", w.Spec.ServiceName, service.Spec.Ports[0].Port)
	var members []string
	for i := range w.Spec.Replicas {
		members = append(members, fmt.Sprintf("%s-%d%s", w.Metadata.Name, i, host))
	}
	if want := strings.Join(members, ","); parameters["cluster"] != want || parameters["route"] != "${POD_NAME}"+host {
		t.Errorf("got the route %s of %s, want ${POD_NAME}%s of %s", parameters["route"], parameters["cluster"], host, want)
	}
	fields := map[string]string{}
	for _, env := range w.Container().Env {
		fields[env.Name] = env.ValueFrom.FieldRef.FieldPath
	}
	if fields["POD_NAME"] != "metadata.name" || fields["POD_NAMESPACE"] != "metadata.namespace" {
		t.Errorf("got the variables %v", fields)
	}
	_, mounted := w.Volume(parameters["dir"])
	claimed := slices.ContainsFunc(w.Container().VolumeMounts, func(m manifest.VolumeMount) bool {
		return m.MountPath == mounted && m.Name == w.Spec.VolumeClaimTemplates[0].Metadata.Name
	})
	if !claimed || mounted != path.Dir(parameters["dir"]) {
		t.Errorf("the folder %s is not on a volume of the StatefulSet", parameters["dir"])
	}
	if w.Spec.PodManagementPolicy != "Parallel" { // a new cluster works once all run
		t.Errorf("pods are started %s, want Parallel", w.Spec.PodManagementPolicy)
	}
	if p := w.Container().StartupProbe; p == nil || p.HTTPGet.Path != "/readyz?require=store" {
		t.Errorf("an upgrade may replace the next pod before the last one is in the cluster: the startup probe is %+v", p)
	}
}

// TestMonitoring checks that the alerts are the same everywhere, and that Prometheus scrapes the metrics as the job that they are about.
func TestMonitoring(t *testing.T) {
	f := read(t, "monitoring")
	text, err := os.ReadFile(filepath.Join(deploy, "prometheus", "alerts.yaml"))
	testkit.NoError(t, err)
	copied, err := os.ReadFile(filepath.Join(chart, "alerts.yaml"))
	testkit.NoError(t, err)
	if string(copied) != string(text) {
		t.Error("the alerts of the chart are not those of deploy/prometheus/alerts.yaml; copy them: make long T=helm WRITE=yes")
	}
	var alerts manifest.Spec
	testkit.NoError(t, yaml.Unmarshal(text, &alerts))
	rules := f.Get("PrometheusRule", "slidegate")
	if rules == nil || len(alerts.Groups) == 0 || !reflect.DeepEqual(rules.Spec.Groups, alerts.Groups) {
		t.Error("the PrometheusRule does not have the alerts of deploy/prometheus/alerts.yaml; render it: make long T=helm WRITE=yes")
	}
	monitor := f.Get("ServiceMonitor", "slidegate")
	w := read(t, "nats").Workload(t)
	var service *manifest.Object
	for _, s := range f.All("Service") {
		if within(monitor.Spec.Selector, s.Metadata.Labels) {
			service = s
		}
	}
	if service == nil || len(monitor.Spec.Endpoints) != 1 || !within(service.Spec.Selector, w.Spec.Template.Metadata.Labels) {
		t.Fatalf("the ServiceMonitor %+v selects no Service of the pods", monitor.Spec)
	}
	if p := service.Spec.Ports[0]; p.Name != monitor.Spec.Endpoints[0].Port || w.Container().Listener(p.TargetPort) != "metrics" || monitor.Spec.Endpoints[0].Path != "/metrics" {
		t.Errorf("Prometheus scrapes %+v of %+v", monitor.Spec.Endpoints, p)
	}
	if job := service.Metadata.Labels[monitor.Spec.JobLabel]; !strings.Contains(string(text), `job="`+job+`"`) || job == "" {
		t.Errorf("the job is %q, and the alerts are about another", job)
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(w.Metadata.Labels)), func(label string) bool { return label == "app.kubernetes.io/component" }) {
		t.Error("the workload has the label that distinguishes the Service of the metrics")
	}
}

// TestChartRenders checks what make long T=helm would find first: that the manifests begin with the comments of the values that they are
// rendered from, and have the chart's version.
func TestChartRenders(t *testing.T) {
	var about struct {
		AppVersion string `yaml:"appVersion"`
	}
	text, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	testkit.NoError(t, err)
	testkit.NoError(t, yaml.Unmarshal(text, &about))
	for _, name := range append([]string{"monitoring"}, shapes...) {
		values, err := os.ReadFile(filepath.Join(chart, "ci", "values-"+name+".yaml"))
		testkit.NoError(t, err)
		comment := regexp.MustCompile(`^(#.*\n)+`).FindString(string(values))
		f := read(t, name)
		if comment == "" || !strings.HasPrefix(f.Text, comment+"---\n") {
			t.Errorf("%s.yaml does not begin with the comment of its values; render it: make long T=helm WRITE=yes", name)
		}
		for _, o := range f.Objects {
			if got := o.Metadata.Labels["app.kubernetes.io/version"]; got != about.AppVersion && o.Metadata.Labels["app.kubernetes.io/name"] == "slidegate" {
				t.Errorf("%s.yaml: the %s %s has the version %q, want %s", name, o.Kind, o.Metadata.Name, got, about.AppVersion)
			}
		}
	}
	eachShape(t, func(t *testing.T, f *manifest.File, w *manifest.Object) {
		if want := "ghcr.io/slidegate/slidegate:" + about.AppVersion; w.Container().Image != want {
			t.Errorf("got the image %s, want %s", w.Container().Image, want)
		}
	})
}
