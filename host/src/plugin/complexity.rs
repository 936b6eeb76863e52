//! Whether a component is safe to compile. A compile can neither be cancelled nor bounded in memory, so what makes it slow
//! or large is counted before.
//!
//! The limits come from measurements: of what real components hold, interpreters foremost (CPython and SpiderMonkey as
//! componentize-py 0.25 and componentize-js 0.23 ship them), and of components made to hurt, with wasmtime 48 on a busy
//! machine of two cores.
//!
//! | what | real | made to hurt |
//! | --- | --- | --- |
//! | functions | 20,000 | 100,000 empty ones: 16 s |
//! | bytes of one body | 430 KB | 700 KB: 1.5 s, 270 MB |
//! | locals of one function, parameters included | 500 | |
//! | blocks of one function (`block`, `loop`, `if`, `else`) | 4,200 | 50,000 in 900 KB: 29 s, 10 GB |
//! | (locals + 8) x branches of one function | 500,000 | 15 million in 98 KB: 9 s |
//! | the same over all functions | 12 million | |
//! | results of a function or block | 1 | 1,000 calls of 1,000 results in 11 KB: 13 s, 1 GB |
//! | components made of components | 2 | 6 levels of 10 in 300 bytes: 0.6 s, and ten times that with each level more |

use wasmparser::{ComponentInstance, CompositeInnerType, FunctionBody, Operator, Payload, RecGroup, TypeRef};

use super::limits::Limits;
use super::scan::malformed;
use crate::cause::LoadError;

/// Compilers of today return at most one value; more of them make each call or block as costly as its values are many.
const RESULTS: usize = 1;
/// How often components may be made of nested components, all levels together. They are unfolded when they are compiled, level
/// by level: so many can't unfold to more than a few thousand.
const COMPONENT_INSTANCES: u32 = 16;
/// How deep modules and components may be nested.
const DEPTH: usize = 8;
/// A branch costs something even in a function without locals.
const BRANCH_BASE: u64 = 8;

/// What has been counted so far, over all modules of a component.
pub(super) struct Complexity<'a> {
    limits: &'a Limits,
    functions: u32,
    locals_times_branches: u64,
    component_instances: u32,
    /// The modules and components around the place where the parser is, the outermost first.
    around: Vec<Module>,
}

/// What a function's parameters are looked up in.
#[derive(Default)]
struct Module {
    /// Parameters of each type.
    types: Vec<u32>,
    /// The type of each function that the module defines.
    functions: Vec<u32>,
    /// How many bodies came by.
    bodies: usize,
}

impl<'a> Complexity<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        let around = vec![Module::default()];
        Self { limits, functions: 0, locals_times_branches: 0, component_instances: 0, around }
    }

    /// Whether the parser is in the component itself, not in what is nested in it.
    pub(super) fn at_top(&self) -> bool {
        self.around.len() == 1
    }

    /// Counts what the parser came upon.
    pub(super) fn see(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                if self.around.len() > DEPTH {
                    return too(format!("modules and components nested deeper than {DEPTH}"));
                }
                self.around.push(Module::default());
            }
            Payload::End(_) => {
                self.around.pop();
            }
            Payload::TypeSection(types) => {
                for group in types.clone() {
                    self.types(&group.map_err(malformed)?)?;
                }
            }
            Payload::FunctionSection(functions) => {
                for function in functions.clone() {
                    let function = function.map_err(malformed)?;
                    if let Some(module) = self.around.last_mut() {
                        module.functions.push(function);
                    }
                }
            }
            Payload::CodeSectionEntry(body) => self.body(body)?,
            // Each is a small function for the compiler.
            Payload::ComponentCanonicalSection(functions) => self.count_functions(functions.count())?,
            Payload::ImportSection(imports) => {
                for import in imports.clone().into_imports() {
                    if matches!(import.map_err(malformed)?.ty, TypeRef::Func(_)) {
                        self.count_functions(1)?;
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances.clone() {
                    if let ComponentInstance::Instantiate { .. } = instance.map_err(malformed)? {
                        self.component_instances += 1;
                    }
                }
                if self.component_instances > COMPONENT_INSTANCES {
                    return too(format!(
                        "nested components are instantiated more than {COMPONENT_INSTANCES} times"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn types(&mut self, group: &RecGroup) -> Result<(), LoadError> {
        for ty in group.types() {
            let parameters = match &ty.composite_type.inner {
                CompositeInnerType::Func(function) if function.results().len() > RESULTS => {
                    return too(format!("a function or block of {} results", function.results().len()));
                }
                CompositeInnerType::Func(function) => function.params().len(),
                _ => 0,
            };
            if let Some(module) = self.around.last_mut() {
                module.types.push(u32::try_from(parameters).unwrap_or(u32::MAX));
            }
        }
        Ok(())
    }

    fn count_functions(&mut self, count: u32) -> Result<(), LoadError> {
        self.functions = self.functions.saturating_add(count);
        if self.functions > self.limits.functions {
            return too(format!("more than {} functions", self.limits.functions));
        }
        Ok(())
    }

    fn body(&mut self, body: &FunctionBody<'_>) -> Result<(), LoadError> {
        self.count_functions(1)?;
        let limits = self.limits;
        let bytes = body.range().len();
        if bytes > limits.body_bytes as usize {
            return too(format!("a function of {bytes} bytes, the limit is {}", limits.body_bytes));
        }
        let mut locals = u64::from(self.parameters());
        for group in body.get_locals_reader().map_err(malformed)? {
            locals = locals.saturating_add(group.map_err(malformed)?.0.into());
        }
        if locals > limits.locals.into() {
            return too(format!("a function of {locals} locals, the limit is {}", limits.locals));
        }
        let (blocks, branches) = count(body)?;
        if blocks > limits.blocks.into() {
            return too(format!("a function of {blocks} blocks, the limit is {}", limits.blocks));
        }
        let product = (locals + BRANCH_BASE).saturating_mul(branches);
        if product > limits.locals_times_branches {
            return too(format!(
                "a function of {locals} locals and {branches} branches: {product}, the limit is {}",
                limits.locals_times_branches
            ));
        }
        self.locals_times_branches = self.locals_times_branches.saturating_add(product);
        if self.locals_times_branches > limits.total_locals_times_branches {
            return too(format!(
                "locals times branches of all functions are over {}",
                limits.total_locals_times_branches
            ));
        }
        Ok(())
    }

    /// Parameters of the function whose body comes next. They are locals, too.
    fn parameters(&mut self) -> u32 {
        let Some(module) = self.around.last_mut() else { return 0 };
        let ty = module.functions.get(module.bodies);
        module.bodies += 1;
        ty.and_then(|&ty| module.types.get(ty as usize)).copied().unwrap_or(0)
    }
}

/// Blocks and branches of a function. A block is also a branch, to its end or to its start, and so is the body.
fn count(body: &FunctionBody<'_>) -> Result<(u64, u64), LoadError> {
    let (mut blocks, mut branches) = (0, 0);
    for operator in body.get_operators_reader().map_err(malformed)? {
        match operator.map_err(malformed)? {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::Else => {
                blocks += 1
            }
            Operator::Br { .. } | Operator::BrIf { .. } => branches += 1,
            Operator::BrTable { targets } => branches += u64::from(targets.len()) + 1,
            _ => {}
        }
    }
    Ok((blocks, branches + blocks + 1))
}

fn too<T>(complex: String) -> Result<T, LoadError> {
    Err(LoadError::TooComplex(complex))
}
