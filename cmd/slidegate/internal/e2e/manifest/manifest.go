// Package manifest reads the manifests in deploy/kubernetes, and prepares their pods to run as processes of this machine.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// File is a file of objects.
type File struct {
	Text    string
	Objects []*Object
}

// Object is an object of Kubernetes, with the fields that the tests need.
type Object struct {
	Kind     string
	Metadata Metadata
	Data     map[string]string
	Spec     Spec
}

// Metadata names an object, or a pod.
type Metadata struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
}

// Spec has the fields of all kinds.
type Spec struct {
	Replicas             int
	Selector             map[string]any
	Template             Template
	ServiceName          string                        `yaml:"serviceName"`
	PodManagementPolicy  string                        `yaml:"podManagementPolicy"`
	MinReadySeconds      int                           `yaml:"minReadySeconds"`
	VolumeClaimTemplates []struct{ Metadata Metadata } `yaml:"volumeClaimTemplates"`

	ClusterIP                string `yaml:"clusterIP"`
	PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
	Ports                    []ServicePort

	JobLabel  string `yaml:"jobLabel"`
	Endpoints []struct{ Port, Path string }
	Groups    []any
}

// ServicePort is a port of a Service.
type ServicePort struct {
	Name       string
	Port       int
	TargetPort string `yaml:"targetPort"`
}

// Template is the template of pods.
type Template struct {
	Metadata Metadata
	Spec     struct {
		TerminationGracePeriodSeconds int            `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               map[string]any `yaml:"securityContext"`
		Containers                    []Container
		Volumes                       []Volume
	}
}

// Container is the container of a pod.
type Container struct {
	Name, Image string
	Args        []string
	Env         []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
			SecretKeyRef map[string]string `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe    *Probe         `yaml:"startupProbe"`
	LivenessProbe   *Probe         `yaml:"livenessProbe"`
	ReadinessProbe  *Probe         `yaml:"readinessProbe"`
	SecurityContext map[string]any `yaml:"securityContext"`
	VolumeMounts    []VolumeMount  `yaml:"volumeMounts"`
}

// VolumeMount is a folder of a container.
type VolumeMount struct {
	Name      string
	MountPath string `yaml:"mountPath"`
	SubPath   string `yaml:"subPath"`
}

// Probe is a probe over HTTP.
type Probe struct {
	HTTPGet       struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds int                         `yaml:"periodSeconds"`
}

// Volume is a volume of a pod.
type Volume struct {
	Name      string
	ConfigMap struct{ Name string } `yaml:"configMap"`
	Secret    struct {
		SecretName string `yaml:"secretName"`
	}
}

// Read reads a file.
func Read(t testing.TB, path string) *File {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.NoError(t, err)
	f := &File{Text: string(text)}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		object := &Object{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return f
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		f.Objects = append(f.Objects, object)
	}
}

// All returns the objects of a kind.
func (f *File) All(kind string) (all []*Object) {
	for _, o := range f.Objects {
		if o.Kind == kind {
			all = append(all, o)
		}
	}
	return all
}

// Get returns an object; nil if there is none.
func (f *File) Get(kind, name string) *Object {
	for _, o := range f.All(kind) {
		if o.Metadata.Name == name {
			return o
		}
	}
	return nil
}

// Workload returns the Deployment or the StatefulSet of the service.
func (f *File) Workload(t testing.TB) *Object {
	t.Helper()
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		if o := f.Get(kind, "slidegate"); o != nil {
			return o
		}
	}
	t.Fatal("no Deployment or StatefulSet named slidegate")
	return nil
}

// Container returns the container of the service.
func (o *Object) Container() *Container { return &o.Spec.Template.Spec.Containers[0] }

// Volume returns the volume that is mounted at a path or above it; nil if none is, or one of a claim.
func (o *Object) Volume(path string) (v *Volume, mounted string) {
	for _, m := range o.Container().VolumeMounts {
		if !strings.HasPrefix(path, m.MountPath+"/") {
			continue
		}
		for i := range o.Spec.Template.Spec.Volumes {
			if v := &o.Spec.Template.Spec.Volumes[i]; v.Name == m.Name {
				return v, m.MountPath
			}
		}
		return nil, m.MountPath
	}
	return nil, ""
}

// Listener returns the listener of a named port: the flag that has its number.
func (c *Container) Listener(port string) (flag string) {
	for _, p := range c.Ports {
		for _, arg := range c.Args {
			name, address, _ := strings.Cut(arg, "=")
			if p.Name == port && strings.HasSuffix(address, fmt.Sprint(":", p.ContainerPort)) {
				flag = strings.TrimPrefix(name, "--")
			}
		}
	}
	return flag
}
