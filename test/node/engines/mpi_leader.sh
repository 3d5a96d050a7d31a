# Started in the leader: writes the group's hostfile, waits for the workers' sshd, and starts a rank in every pod.
mkdir -p ~/.ssh
cat > ~/.ssh/config <<END
Port 2222
IdentityFile /keys/id
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
END
leader=${LWS_LEADER_ADDRESS%%.*} domain=${LWS_LEADER_ADDRESS#*.}
echo "$LWS_LEADER_ADDRESS slots=1" > /hostfile
for worker in $(seq $((LWS_GROUP_SIZE - 1))); do
    echo "$leader-$worker.$domain slots=1" >> /hostfile
    until ssh "$leader-$worker.$domain" true; do sleep 0.5; done
done
exec mpirun --allow-run-as-root --hostfile /hostfile -n "$LWS_GROUP_SIZE" -x REVISION \
    /opt/engines/bin/python /programs/mpi_sum.py
