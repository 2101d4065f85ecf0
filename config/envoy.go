package config

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/slidegate/slidegate/internal/yamlfile"
)

// Envoy says where the service finds rules in the format of envoyproxy/ratelimit. The zero value means nowhere.
type Envoy struct {
	Files []string // files of rules, and folders of them
	XDS   XDS      // a management server that sends rules
}

// XDS is a management server, and how the service connects to it. The zero value means none.
type XDS struct {
	Address  string // HOST:PORT, or unix:/path
	Node     string // how the service identifies itself; empty means default
	Metadata map[string]string
	Headers  map[string]string // sent with the stream; they may contain secrets
	// TLS is set if the connection uses it, as it also does if one of the others is given: the files of certificate authorities, and
	// of the client's certificate and its key, and the name in the server's certificate.
	TLS                       bool
	CA, Cert, Key, ServerName string
}

// envoyTable has the fields of envoy.
var envoyTable = table[Envoy]{
	{
		"files", "a list of paths", "none", "Files of rules in the format of envoyproxy/ratelimit, and folders of them, relative to this file.",
		func(r *reader, to *Envoy, e yamlfile.Field) {
			for _, item := range r.items(e, "paths of files and folders") {
				to.Files = append(to.Files, r.path(item))
			}
		},
		func(w *formatter, of *Envoy) {
			var texts []string
			for _, path := range of.Files {
				texts = append(texts, strconv.Quote(path))
			}
			w.list("files", texts)
		},
	},
	{
		"xds", "a mapping", "none", "A management server that sends rules, as for envoyproxy/ratelimit (ADS, state of the world).",
		func(r *reader, to *Envoy, e yamlfile.Field) { to.XDS = r.xds(e) },
		func(w *formatter, of *Envoy) {
			if of.XDS.Address != "" {
				w.mapping("xds", func() { xdsTable.show(w, &of.XDS) })
			}
		},
	},
}

// xdsTable has the fields of envoy's xds.
var xdsTable = table[XDS]{
	{
		"address", "`HOST:PORT`", "", "The address of the management server.",
		func(r *reader, to *XDS, e yamlfile.Field) { to.Address = r.filled(e) },
		func(w *formatter, of *XDS) { w.text("address", of.Address) },
	},
	{
		"node", "a text", "default", "How the service identifies itself to it.",
		func(r *reader, to *XDS, e yamlfile.Field) { to.Node = r.filled(e) },
		func(w *formatter, of *XDS) { w.text("node", of.Node) },
	},
	{
		"metadata", "a mapping of texts", "none", "Metadata of the node.",
		func(r *reader, to *XDS, e yamlfile.Field) { to.Metadata = r.texts(e, r.filled) },
		func(w *formatter, of *XDS) { w.texts("metadata", of.Metadata, strconv.Quote) },
	},
	{
		"headers", "a mapping of texts", "none", "Headers to send to it. ${NAME} and ${file:PATH} stand for secrets, as in store.",
		func(r *reader, to *XDS, e yamlfile.Field) { to.Headers = r.texts(e, r.secret) },
		func(w *formatter, of *XDS) {
			w.texts("headers", of.Headers, func(string) string { return `"***"` })
		},
	},
	{
		"tls", boolean, "false", "Connect with TLS, which one of the following also means.",
		func(r *reader, to *XDS, e yamlfile.Field) { to.TLS = r.Bool(e) },
		func(w *formatter, of *XDS) { w.field("tls", of.TLS) },
	},
	{
		"ca", "a path", "the system's", "The certificate authority that verifies it, in PEM.",
		func(r *reader, to *XDS, e yamlfile.Field) { to.CA = r.path(e) },
		func(w *formatter, of *XDS) { w.text("ca", of.CA) },
	},
	{
		"cert", "a path", "none", "The client certificate to send to it, in PEM.",
		func(r *reader, to *XDS, e yamlfile.Field) { to.Cert = r.path(e) },
		func(w *formatter, of *XDS) { w.text("cert", of.Cert) },
	},
	{
		"key", "a path", "none", "The private key of the client certificate, in PEM.",
		func(r *reader, to *XDS, e yamlfile.Field) { to.Key = r.path(e) },
		func(w *formatter, of *XDS) { w.text("key", of.Key) },
	},
	{
		"server_name", "a name", "the host", "The name that its certificate must have.",
		func(r *reader, to *XDS, e yamlfile.Field) { to.ServerName = r.filled(e) },
		func(w *formatter, of *XDS) { w.text("server_name", of.ServerName) },
	},
}

func (r *reader) xds(e yamlfile.Field) (made XDS) {
	given := xdsTable.in(r, e, "xds", "xds: must be a mapping with address, not %s; write {address: localhost:18000}, say", &made)
	if given != nil && !given.has("address") {
		r.Problems.Addf(e.At, "xds: has no address; add address: HOST:PORT of the management server")
	}
	made.TLS = made.TLS || made.CA+made.Cert+made.Key+made.ServerName != ""
	return made
}

// envoy writes where rules for Envoy are, if that is given.
func (w *formatter) envoy(of *Envoy) {
	if len(of.Files) > 0 || of.XDS.Address != "" {
		w.mapping("envoy", func() { envoyTable.show(w, of) })
	}
}

// texts writes a mapping of names to texts, if there are any.
func (w *formatter) texts(name string, all map[string]string, quote func(string) string) {
	if len(all) == 0 {
		return
	}
	w.mapping(name, func() {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			w.field(strconv.Quote(key), quote(all[key]))
		}
	})
}

// filled reads a text that must not be empty.
func (r *reader) filled(e yamlfile.Field) string {
	text, ok := r.Text(e)
	if ok && text == "" {
		r.Problems.Addf(e.ValueAt(), "%s: is empty; write a text, or leave it out", e.Name)
	}
	return text
}

// path reads the path of a file or a folder, which may be relative to this file.
func (r *reader) path(e yamlfile.Field) string {
	path := r.filled(e)
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.name), path)
}

// secret reads a text in which ${NAME} and ${file:PATH} stand for secrets. Errors do not contain it.
func (r *reader) secret(e yamlfile.Field) string {
	text, err := expand(r.filled(e), values{os.LookupEnv, readSecret, r.opts.Offline})
	if err != nil {
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, err)
	}
	return text
}

// texts reads a mapping of names to texts, each of which read returns.
func (r *reader) texts(e yamlfile.Field, read func(yamlfile.Field) string) map[string]string {
	if !r.isMapping(e, e.Name+": must be a mapping of names to texts, not %s") {
		return nil
	}
	all := map[string]string{}
	for _, item := range r.mapping(e.Value, "", nil) {
		if item.Value != nil {
			all[item.Name] = read(item)
		}
	}
	return all
}
