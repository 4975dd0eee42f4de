"""The conservation law of the ledger, as one question to the database."""

BREACHES = """
SELECT 'the ledger holds ' || COUNT(*) || ' trajectories of ' || c.value || ' launched'
  FROM trajectories, counters c WHERE c.name = 'launches' HAVING COUNT(*) != c.value
UNION ALL SELECT id || ' is ' || state || ' without a record' FROM trajectories
  WHERE state IN ('buffered', 'trained') AND record IS NULL
UNION ALL SELECT id || ' is ' || state || ' and has a record' FROM trajectories
  WHERE state IN ('launched', 'carried') AND record IS NOT NULL
UNION ALL SELECT id || ' is carried without a prefix' FROM trajectories
  WHERE state = 'carried' AND id NOT IN (SELECT id FROM chunks)
UNION ALL SELECT DISTINCT c.id || ' has a prefix and is ' || t.state
  FROM chunks c JOIN trajectories t USING (id) WHERE t.state != 'carried'
UNION ALL SELECT id || ' is dropped without a reason' FROM trajectories
  WHERE state = 'dropped' AND reason IS NULL
UNION ALL SELECT id || ' is ' || state || ' and in the batch of update ' || update_id
  FROM trajectories WHERE update_id IS NOT NULL AND state NOT IN ('buffered', 'trained')
UNION ALL SELECT id || ' is trained in no batch' FROM trajectories
  WHERE state = 'trained' AND update_id IS NULL
UNION ALL SELECT id || ' broke (infra_error) and is in a batch' FROM trajectories
  WHERE outcome = 'infra_error' AND update_id IS NOT NULL
UNION ALL SELECT id || ' is ' || state || ', its update ' || u.update_id || ' says otherwise'
  FROM trajectories t JOIN updates u USING (update_id) WHERE (state = 'trained') != u.trained
UNION ALL SELECT 'update ' || u.update_id || ' has ' || COUNT(t.id) || ' of ' || u.size
  FROM updates u LEFT JOIN trajectories t USING (update_id) GROUP BY u.update_id
  HAVING COUNT(t.id) != u.size
UNION ALL SELECT id || ' is in the batch of an update that is not recorded' FROM trajectories
  WHERE update_id IS NOT NULL AND update_id NOT IN (SELECT update_id FROM updates)
"""
"""Each row of the answer is one breach, in words."""
