package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

// Certificate is a certificate with its key, both as PEM and as one value.
type Certificate struct {
	Cert, Key []byte
	Pair      tls.Certificate
}

// NewCertificate returns a certificate for clients and for a server with these names or addresses. It is signed by by or, if that is nil, is
// an authority that has signed itself. It is valid for an hour.
func NewCertificate(t testing.TB, name string, by *Certificate, hosts ...string) *Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: by == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Pair.Leaf, by.Pair.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	NoError(t, err)
	c := &Certificate{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
	c.Pair, err = tls.X509KeyPair(c.Cert, c.Key)
	NoError(t, err)
	return c
}

// Write writes the certificate and its key to files.
func (c *Certificate) Write(t testing.TB, cert, key string) {
	t.Helper()
	NoError(t, os.WriteFile(key, c.Key, 0o600))
	NoError(t, os.WriteFile(cert, c.Cert, 0o600))
}

// Pool returns a pool that has only this certificate.
func (c *Certificate) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Pair.Leaf)
	return pool
}
