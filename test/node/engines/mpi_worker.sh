# Started in every worker: ranks are started through it.
mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -p 2222 -h /keys/id -o AuthorizedKeysFile=/keys/authorized -o StrictModes=no
