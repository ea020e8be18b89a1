# Makes the certificates and keys of the tests of TLS, as PEM, in the folder that is named:
#
#     sh certificates.sh FOLDER
#
# NAME.pem has the certificate of its name, and NAME.key the key:
#
#     authority    signs the four that follow
#     server       for localhost and 127.0.0.1
#     renewed      the same, with another key, of RSA
#     elsewhere    for a host of another name
#     client       a client's; client.p12 has both for Java, as `user`, with the password `changeit`
#     foreign      another authority, which no server trusts
#     stranger     a client's, signed by `foreign`
#
# Needs the program `openssl` of OpenSSL 3.
set -eu
umask 077
cd "$1"

cat >openssl.cnf <<'END'
[req]
distinguished_name = subject
[subject]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[elsewhere]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:elsewhere.example
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END

# make NAME EXTENSIONS OPTION…
make() {
    name=$1 extensions=$2
    shift 2
    openssl req -x509 -config openssl.cnf -extensions "$extensions" -noenc -days 2 -subj "/CN=$name" \
        -keyout "$name.key" -out "$name.pem" "$@" 2>openssl.log || {
        cat openssl.log >&2
        exit 1
    }
}

curve='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1'
make authority authority $curve
make foreign authority $curve
make server server $curve -CA authority.pem -CAkey authority.key
make renewed server -newkey rsa:2048 -CA authority.pem -CAkey authority.key
make elsewhere elsewhere $curve -CA authority.pem -CAkey authority.key
make client client $curve -CA authority.pem -CAkey authority.key
make stranger client $curve -CA foreign.pem -CAkey foreign.key
openssl pkcs12 -export -name user -in client.pem -inkey client.key -passout pass:changeit -out client.p12
