package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// Pod is what a pod starts as a process of this machine: with its arguments, except that addresses are on loopback with free ports, and
// folders are temporary. It can be started again, as a pod of a StatefulSet is replaced.
type Pod struct {
	Args, Env []string
	Mounts    map[string]*Mount // by the name of the ConfigMap or the Secret
}

// anyAddress matches an address on all interfaces.
var anyAddress = regexp.MustCompile(`=0\.0\.0\.0:\d+$`)

// Pod prepares a pod of a workload. Secrets has the files of Secrets by their names; replace has pairs of texts to replace in the files of
// ConfigMaps.
func (f *File) Pod(t testing.TB, w *Object, name string, secrets map[string]map[string]string, replace ...string) *Pod {
	t.Helper()
	p := &Pod{Env: []string{"POD_NAME=" + name, "POD_NAMESPACE=default"}, Mounts: map[string]*Mount{}}
	for _, env := range w.Container().Env {
		if env.Value != "" {
			p.Env = append(p.Env, env.Name+"="+env.Value)
		}
	}
	dirs := map[string]string{}
	for _, m := range w.Container().VolumeMounts {
		dirs[m.Name] = t.TempDir()
		replace = append(replace, m.MountPath+"/", dirs[m.Name]+"/")
	}
	replacer := strings.NewReplacer(replace...)
	for _, volume := range w.Spec.Template.Spec.Volumes {
		files, object := secrets[volume.Secret.SecretName], volume.Secret.SecretName
		if volume.ConfigMap.Name != "" {
			files, object = map[string]string{}, volume.ConfigMap.Name
			for name, text := range f.Get("ConfigMap", object).Data {
				files[name] = replacer.Replace(text)
			}
		}
		p.Mounts[object] = &Mount{dir: dirs[volume.Name]}
		p.Mounts[object].Update(t, files)
	}
	for _, arg := range w.Container().Args {
		p.Args = append(p.Args, anyAddress.ReplaceAllString(replacer.Replace(arg), "=127.0.0.1:0"))
	}
	return p
}

// Mount is a folder as Kubernetes mounts a ConfigMap or a Secret: its files are links through the link ..data, which a change replaces.
type Mount struct {
	dir      string
	versions int
}

// Read returns a file.
func (m *Mount) Read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, name))
	testkit.NoError(t, err)
	return string(text)
}

// Update replaces the files, as the kubelet does when the object has changed.
func (m *Mount) Update(t testing.TB, files map[string]string) {
	t.Helper()
	m.versions++
	version := fmt.Sprint("..", m.versions)
	testkit.NoError(t, os.Mkdir(filepath.Join(m.dir, version), 0o700))
	for name, text := range files {
		testkit.NoError(t, os.WriteFile(filepath.Join(m.dir, version, name), []byte(text), 0o400))
		if m.versions == 1 {
			testkit.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
		}
	}
	next := filepath.Join(m.dir, "..data_tmp")
	testkit.NoError(t, os.Symlink(version, next))
	testkit.NoError(t, os.Rename(next, filepath.Join(m.dir, "..data")))
}

var listening = regexp.MustCompile(`"listener":"([a-z]+)","address":"([^"]+)"`)

// Addresses returns the addresses of the listeners that a process has logged.
func Addresses(log string) map[string]string {
	addresses := map[string]string{}
	for _, found := range listening.FindAllStringSubmatch(log, -1) {
		addresses[found[1]] = found[2]
	}
	return addresses
}
